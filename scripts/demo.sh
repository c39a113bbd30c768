#!/usr/bin/env bash
# Runs a program that leaks under `culprit run`, and prints the report.
#
# scripts/demo.sh [--package FILE | --build] [EXAMPLE [ARGUMENT...]]
#
# With a package at hand (--package, or culprit-*-linux-x86_64.tar.gz here or in build/package/) its example runs, and
# no compiler is needed. Otherwise, with --build, or for another EXAMPLE of examples/, the script builds the library,
# the command, the simulated driver and the example, and nothing else: about two and a half minutes on two processors.
# Progress goes to stderr. On a machine with an NVIDIA GPU the example runs there, elsewhere on the simulated driver;
# the first line of the output tells which.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
package='' build=false shipped=out_of_memory_exception
case "${1:-}" in
  --package)
    package=$(realpath "${2:?demo.sh: --package needs a file}")
    [ -f "$package" ] || fail 2 "no file $package"
    shift 2 ;;
  --build) build=true; shift ;;
  -*) wrong_usage "no option $1" ;;
esac
cd "$root"
example=${1:-$shipped}
[ $# -gt 0 ] && shift
if [ ! -f "examples/${example%_static}.cpp" ]; then
  printf "%s\n" examples/*.cpp | sed -E "s|examples/(.*)\.cpp|  \1|" >&2
  fail 2 "no example $example; those above are there"
fi
if [ -z "$package" ] && ! $build && [ "$example" = "$shipped" ]; then
  folders=(.)
  if [ -d build/package ]; then folders+=(build/package); fi
  package=$(find "${folders[@]}" -maxdepth 1 -name 'culprit-[0-9]*-linux-x86_64.tar.gz' ! -name '*gpu-tests*' |
    sort -V | tail -1)
fi

if [ -n "$package" ]; then
  [ "$example" = "$shipped" ] || fail 2 "a package has the example $shipped only"
  say "with $package (--build builds instead)"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  tar -C "$work" -xzf "$package" --strip-components=1
  culprit=$work/bin/culprit program=$work/lib/culprit/demo/$example simulator=$work/lib/culprit/demo/driver
else
  scripts/build.sh --target libculprit --target culprit --target "$example" >&2
  culprit=build/bin/culprit program=build/examples/$example simulator=build/simcuda
fi

libraries=${LD_LIBRARY_PATH:-} without=''
if gpu=$(scripts/has-gpu.sh 2>/dev/null); then
  # A machine without the toolkit has no libcudart.so.13. The program with NVIDIA's static runtime inside needs none; it
  # exists only where the toolkit was found.
  if [ -z "$package" ]; then
    cmake --build build --target "${example}_nvstatic" </dev/null >/dev/null 2>&1 || true
    if [ -x "build/examples/${example}_nvstatic" ]; then program=build/examples/${example}_nvstatic; fi
  fi
  if [ -n "$package" ]; then
    runtime=$(ldconfig -p | sed -nE 's|^\s*libcudart\.so\.13 .* => (/.*)/libcudart.*|\1|p' | sed -n 1p)
    if [ -n "$runtime" ]; then
      libraries=$runtime${libraries:+:$libraries}
    else
      gpu='' without=' with libcudart.so.13'
    fi
  fi
fi
if [ -n "$gpu" ]; then
  echo "On this machine's GPU: $gpu"
else
  echo "No GPU$without here: on the simulated driver"
  libraries=$simulator${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
echo "\$ culprit run$(printf ' %q' "${program#"${work:-$root}/"}" "$@")"
LD_LIBRARY_PATH="$libraries" "$culprit" run -- "$program" "$@"
