#!/usr/bin/env bash
# Measures what culprit costs: scripts/bench.sh [--package FILE.tar.gz] [options...]; --help lists them.
#
# In a source tree it builds what it runs. With --package (what scripts/package.sh --with-tests made), or when it lies in such an unpacked
# package itself, it runs the prebuilt programs and builds, installs and downloads nothing. Needs Python 3; a machine without a GPU
# needs --quick. Progress goes to stderr, the table to stdout; exit code 1 when a side that is there failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
package=
options=()
help=false
while [ $# -gt 0 ]; do
  case "$1" in
    --package)
      [ $# -ge 2 ] && [ -f "$2" ] || { echo "bench.sh: --package needs a file" >&2; exit 2; }
      package=$2
      shift
      ;;
    --package=*) package=${1#*=}; [ -f "$package" ] || { echo "bench.sh: no file $package" >&2; exit 2; } ;;
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
[ -f "$root/tests/bench/bench.py" ] || { echo "bench.sh: no tests/bench/bench.py in $root" >&2; exit 2; }
python3 "$root/tests/bench/bench.py" --tree "$tree" ${options[@]+"${options[@]}"}
