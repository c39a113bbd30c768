#!/usr/bin/env bash
# Pairs of allocation and free from code of JITs, alone and under the library: tests/bench/jit.sh [COUNT [LIBRARY...]]
#
# On the driver of tests/guest, which does next to nothing. Needs luajit and a JDK; without one its rows are left out.
# COUNT: 250000 by default. LIBRARY: other builds of libculprit.so, to compare them.
set -euo pipefail
cd "$(dirname "$0")/../.."
count=${1:-250000}
libraries=("" "${@:2}")
[ $# -gt 1 ] || libraries=("" "$PWD/build/lib/libculprit.so")
bench=$PWD/tests/bench
driver=$PWD/build/guest/driver
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$driver CULPRIT_OUT=$work/dump CULPRIT_QUIET=1

# The last line of a program's output, under each library.
row() {
  printf '%-40s' "$1"
  shift
  for library in "${libraries[@]}"; do
    printf ' %8s' "$(LD_PRELOAD=$library "$@" 2>/dev/null | tail -1 || true)"
    rm -f "$work"/dump*
  done
  echo
}

printf '%-40s' "$count pairs"
for library in "${libraries[@]}"; do printf ' %8s' "$([ -n "$library" ] && basename "$library" .so || echo alone)"; done
echo
if command -v luajit >/dev/null; then row luajit luajit "$bench/jit_pairs.lua" "$count"; fi
if command -v javac >/dev/null; then
  java=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
  cuda=$(sed -n 's/^CULPRIT_CUDA_INCLUDE:PATH=//p' build/CMakeCache.txt)
  cc -O1 -shared -fPIC -I"$java/include" -I"$java/include/linux" -I"$cuda" "$bench/jit_pairs.c" \
    -o "$work/libpairs.so" "$driver/libcuda.so.1"
  javac -d "$work" "$bench/JitPairs.java"
  for option in -XX:+TieredCompilation -XX:-Inline -XX:TieredStopAtLevel=1 -Xint; do
    row "java $option" java "$option" -cp "$work" JitPairs "$work/libpairs.so" "$count"
  done
fi
