#!/usr/bin/env bash
# Gets the CUDA headers where no toolkit is installed: scripts/cuda-headers.sh DEPS_FOLDER
#
# culprit needs NVIDIA's headers and links nothing of the toolkit. The script looks for a toolkit where CMakeLists.txt
# does. Without one it takes the headers from NVIDIA's wheels on PyPI, into DEPS_FOLDER/cuda.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
here=$(cd "$(dirname "$0")" && pwd)
deps=${1:?usage: scripts/cuda-headers.sh DEPS_FOLDER}
for folder in "${CUDA_HOME:-}/include" /usr/local/cuda/include /usr/include /usr/local/include "$deps/cuda/include"; do
  [ -f "$folder/cuda.h" ] && [ -f "$folder/crt/host_defines.h" ] && [ -f "$folder/cudaProfiler.h" ] && exit 0
done

# The first has cuda.h and cuda_runtime.h, the second crt/host_defines.h, the third cudaProfiler.h.
wheels=('nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-profiler-api==13.0.*')
say "no CUDA toolkit found, taking the headers from PyPI: ${wheels[*]}"
"$here/cuda-wheels.sh" "$deps/cuda" "${wheels[@]}"
[ -f "$deps/cuda/include/cuda.h" ] || fail "the wheels brought no cuda.h"
echo "CUDA headers: $deps/cuda/include" >&2
