#!/usr/bin/env bash
# Builds everything: scripts/build.sh [cmake options...]
#
# Installs the packages that are missing (Debian, Ubuntu), gets the CUDA headers when there is no toolkit, builds
# the static libunwind, then everything into build/:
#   build/bin/culprit   build/lib/libculprit.so   build/simcuda/ (the simulated driver)   build/examples/
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
# The last line is for build-libunwind.sh: it builds the distribution's source package.
scripts/install-packages.sh g++ cmake ninja-build make pkg-config python3 binutils \
  catch2 libcli11-dev nlohmann-json3-dev libdw-dev libelf-dev node-d3 \
  dpkg-dev autoconf automake libtool xz-utils patch
scripts/cuda-headers.sh build/deps
scripts/build-libunwind.sh build/deps
cmake -S . -B build -G Ninja "$@" </dev/null >build/configure.log || { cat build/configure.log >&2; exit 1; }
cmake --build build </dev/null
