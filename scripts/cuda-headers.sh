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
python3 -m pip --version >/dev/null 2>&1 || "$here/install-packages.sh" python3-pip
work=$deps/cuda-wheels
rm -rf "$work" "$deps/cuda" && mkdir -p "$work/unpacked"
say "no CUDA toolkit found, taking the headers from PyPI: ${wheels[*]}"
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$work" "${wheels[@]}" \
  </dev/null
for wheel in "$work"/*.whl; do python3 -m zipfile -e "$wheel" "$work/unpacked"; done
mv "$work/unpacked/nvidia/cu13" "$deps/cuda"
rm -rf "$work"
[ -f "$deps/cuda/include/cuda.h" ] || fail "the wheels brought no cuda.h"
echo "CUDA headers: $deps/cuda/include" >&2
