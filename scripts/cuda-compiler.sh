#!/usr/bin/env bash
# Gets nvcc where no toolkit is installed: scripts/cuda-compiler.sh DEPS_FOLDER
#
# It compiles the one kernel of culprit (interpose/device_search/). The script looks where that folder's CMakeLists.txt
# does. Without one it takes the compiler from NVIDIA's wheels on PyPI, into DEPS_FOLDER/cuda-compiler.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
here=$(cd "$(dirname "$0")" && pwd)
deps=${1:?usage: scripts/cuda-compiler.sh DEPS_FOLDER}
for nvcc in "${CUDA_HOME:-}/bin/nvcc" /usr/local/cuda/bin/nvcc "$deps/cuda-compiler/bin/nvcc"; do
  [ -x "$nvcc" ] && exit 0
done
command -v nvcc >/dev/null && exit 0

# nvcc and ptxas; cicc; the two folders of headers that nvcc includes.
wheels=('nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*')
say "no nvcc found, taking it from PyPI (100 MB): ${wheels[*]}"
"$here/cuda-wheels.sh" "$deps/cuda-compiler" "${wheels[@]}"
chmod +x "$deps"/cuda-compiler/bin/* "$deps"/cuda-compiler/nvvm/bin/*
"$deps/cuda-compiler/bin/nvcc" --version >/dev/null || fail "the wheels brought no nvcc that runs"
echo "nvcc: $deps/cuda-compiler/bin/nvcc" >&2
