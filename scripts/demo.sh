#!/usr/bin/env bash
# Builds culprit, runs a program that leaks under `culprit run`, and prints the report.
#
# scripts/demo.sh [EXAMPLE [ARGUMENT...]]     EXAMPLE is a program of examples/, by default out_of_memory_exception
#
# Builds the library, the command, the simulated driver and the example, and nothing else: about two and a half minutes
# on two processors. Progress goes to stderr. On a machine with an NVIDIA GPU the example runs there, elsewhere on the
# simulated driver; the first line of the output tells which.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
example=${1:-out_of_memory_exception}
[ $# -gt 0 ] && shift
if [ ! -f "examples/${example%_static}.cpp" ]; then
  echo "demo.sh: no example $example. There are:" >&2
  printf "%s\n" examples/*.cpp | sed -E "s|examples/(.*)\.cpp|  \1|" >&2
  exit 2
fi

scripts/build.sh --target libculprit --target culprit --target "$example" >&2

if gpu=$(scripts/has-gpu.sh); then
  echo "On this machine's GPU: $gpu"
  # A machine without the toolkit has no libcudart.so.13. The program with NVIDIA's static runtime inside needs none; it
  # exists only where the toolkit was found.
  cmake --build build --target "${example}_nvstatic" </dev/null >/dev/null 2>&1 || true
  program=build/examples/${example}_nvstatic
  [ -x "$program" ] || program=build/examples/$example
  libraries=${LD_LIBRARY_PATH:-}
else
  echo "No GPU here: on the simulated driver"
  program=build/examples/$example
  libraries=build/simcuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
echo "\$ culprit run $program${*:+ $*}"
exec env LD_LIBRARY_PATH="$libraries" build/bin/culprit run -- "$program" "$@"
