#!/usr/bin/env bash
# Measures the cost of culprit: scripts/bench.sh [--package FILE.tar.gz] [options...]; --help lists them.
#
# In a source tree the script builds the programs first. With --package FILE (made by scripts/package.sh --with-tests),
# or in such a package that was unpacked, the script runs the prebuilt programs, and nothing is built, installed or
# downloaded. Needs Python 3. A machine without a GPU needs --quick. Progress goes to stderr, the table to stdout. Exit
# code 1: a measurement failed; measurements whose tool is not installed do not count.
set -euo pipefail
has_own_help=true
. "$(dirname "$0")/fail.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
package=
options=()
help=false
while [ $# -gt 0 ]; do
  case "$1" in
    --package)
      [ -f "${2:-}" ] || fail 2 "--package needs a file"
      package=$2
      shift
      ;;
    --package=*) package=${1#*=}; [ -f "$package" ] || fail 2 "no file $package" ;;
    -h | --help | --list) help=true; options+=("$1") ;;
    *) options+=("$1") ;;
  esac
  shift
done
export PYTHONDONTWRITEBYTECODE=1

if [ -n "$package" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  tar -C "$work" -xzf "$package"
  tree=$(find "$work" -mindepth 1 -maxdepth 1 -type d)
  root=$tree
elif [ -f "$root/CMakeLists.txt" ]; then
  tree=$root/build
  if ! $help; then
    scripts=$root/scripts
    "$scripts/install-packages.sh" valgrind libbenchmark-dev
    "$scripts/build.sh" -DCULPRIT_MICRO_BENCHMARKS=ON >&2
  fi
else
  tree=$root
fi
[ -f "$root/tests/bench/bench.py" ] || fail 2 "no tests/bench/bench.py in $root"
python3 "$root/tests/bench/bench.py" --tree "$tree" ${options[@]+"${options[@]}"}
