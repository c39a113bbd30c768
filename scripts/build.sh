#!/usr/bin/env bash
# Builds: scripts/build.sh [--configure | --target NAME...] [cmake options...]
#
# Installs missing packages (Debian, Ubuntu; no D3 with -DCULPRIT_D3=FILE), gets the CUDA headers where no toolkit is
# installed, and builds the static libraries libunwind, zstd, LZ4, prometheus-cpp and CivetWeb. Then builds everything,
# with --target only these targets and what they need, with --configure nothing yet, into build/:
#   build/bin/culprit   build/lib/libculprit.so   build/simcuda/ (the simulated driver)   build/examples/
set -euo pipefail
. "$(dirname "$0")/fail.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
targets=() only_configure=false
if [ "${1:-}" = --configure ]; then
  only_configure=true
  shift
fi
while [ "${1:-}" = --target ]; do
  targets+=(--target "${2:?build.sh: --target needs a name}")
  shift 2
done
scripts/install-packages.sh g++ cmake ninja-build make pkg-config python3 binutils patch \
  catch2 libcli11-dev libspdlog-dev nlohmann-json3-dev libdw-dev libelf-dev libutf8proc-dev zlib1g-dev \
  libncurses-dev systemtap-sdt-dev
[[ " $*" == *" -DCULPRIT_D3="* ]] || scripts/install-packages.sh node-d3
scripts/cuda-headers.sh build/deps
scripts/cuda-compiler.sh build/deps
scripts/build-libunwind.sh build/deps
scripts/build-decompressors.sh build/deps
scripts/build-prometheus.sh build/deps
cmake -S . -B build -G Ninja "$@" </dev/null >build/configure.log || {
  cat build/configure.log >&2
  fail "cmake cannot configure the build, see above"
}
$only_configure || cmake --build build ${targets[@]+"${targets[@]}"} </dev/null
