#!/usr/bin/env bash
# Gets NVIDIA's libcudart of CUDA 11 and 12 from PyPI: scripts/cudart-versions.sh DEPS_FOLDER
#
# For the tests on a GPU (scripts/package.sh --with-tests): a program with the runtime of CUDA 13 loads libraries that
# were linked with the runtimes of CUDA 11 and 12, and culprit must record the calls of all three.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
here=$(cd "$(dirname "$0")" && pwd)
deps=${1:?usage: scripts/cudart-versions.sh DEPS_FOLDER}
python3 -m pip --version >/dev/null 2>&1 || "$here/install-packages.sh" python3-pip
for version in 11 12; do
  folder=$deps/cudart$version
  compgen -G "$folder/libcudart.so.*" >/dev/null && continue
  rm -rf "$folder" && mkdir -p "$folder/wheel"
  python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$folder/wheel" \
    "nvidia-cuda-runtime-cu$version" </dev/null
  python3 -m zipfile -e "$folder"/wheel/*.whl "$folder/wheel"
  mv "$folder"/wheel/nvidia/cuda_runtime/lib/libcudart.so.* "$folder"
  rm -rf "$folder/wheel"
done
