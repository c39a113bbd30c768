#!/usr/bin/env bash
# Shows the main job: builds, runs a program that leaks under `culprit run`, and prints the report.
#
# scripts/demo.sh [EXAMPLE [ARGUMENT...]]     an example of examples/, by default out_of_memory_exception
#
# On a machine with an NVIDIA GPU the program runs there, elsewhere on the simulated driver; the first line says which.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
scripts/build.sh >build.log 2>&1 || { cat build.log >&2; exit 1; }
rm -f build.log
example=${1:-out_of_memory_exception}
[ $# -gt 0 ] && shift
if gpu=$(scripts/has-gpu.sh); then
  echo "On this machine's GPU: $gpu"
  # A machine without the toolkit has no libcudart.so.13; the program with NVIDIA's static runtime inside needs none.
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
