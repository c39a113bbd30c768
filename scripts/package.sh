#!/usr/bin/env bash
# Makes the packages: scripts/package.sh [--with-tests]
#
# In build/package/, for x86-64 Linux with glibc 2.28 or newer (Debian 11, Ubuntu 20.04, RHEL 8, and later ones):
#   culprit-VERSION-linux-x86_64.tar.gz         runs in any folder: both programs, the Python package, manual pages
#   culprit_VERSION_amd64.deb                   the same for apt
#   culprit_gpu-VERSION-py3-none-manylinux_*    the same for pip, with the pytest plugin
#   SHA256SUMS
# With --with-tests also culprit-VERSION-gpu-tests-linux-x86_64.tar.gz: prebuilt tests, for scripts/gpu-test.sh.
#
# Everything is compiled by the compiler of build-toolchain.sh, so that the packages are the same wherever they are
# made. They contain the libraries that the command needs beyond glibc, in lib/culprit/, and find them by a relative
# path. tests/package/ tests them (ctest -L artefacts).
set -euo pipefail
. "$(dirname "$0")/fail.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
with_tests=false
case "${1:-}" in
  "") ;;
  --with-tests) with_tests=true ;;
  *) wrong_usage "no option $1" ;;
esac
scripts/install-packages.sh cmake ninja-build make patch pkg-config python3 python3-pip \
  binutils patchelf xz-utils bzip2 m4
unset LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH  # of other compilers
deps=$root/build/deps
toolchain=$deps/toolchain
scripts/build-toolchain.sh "$deps"
scripts/cuda-headers.sh "$deps"
scripts/cuda-compiler.sh "$deps/packages"
cc="$toolchain/usr/bin/x86_64-linux-gnu-gcc-11 --sysroot=$toolchain"
CC=$cc scripts/build-libunwind.sh "$deps/packages"
CC=$cc scripts/build-decompressors.sh "$deps/packages"
CC=$cc CXX="${cc/gcc-11/g++-11}" scripts/build-prometheus.sh "$deps/packages"
for cuda in "${CUDA_HOME:-}/include" /usr/local/cuda/include "$deps/cuda/include"; do
  if [ -f "$cuda/cuda.h" ]; then break; fi
done

version=$(sed -nE 's/^project\(culprit VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
build=$root/build/packages-build
out=$root/build/package
name=culprit-$version-linux-x86_64
tree=$out/$name
cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain/toolchain.cmake" -DCULPRIT_DEPS="$deps/packages" \
  -DCULPRIT_CUDA_INCLUDE="$cuda" -DCULPRIT_BUNDLE="$toolchain/bundle" -DCULPRIT_BUILD_DEMO=ON \
  -DCULPRIT_BUILD_TESTS=OFF -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_C_FLAGS_RELEASE='-O2 -DNDEBUG' -DCMAKE_CXX_FLAGS_RELEASE='-O2 -DNDEBUG' \
  -DCMAKE_MODULE_LINKER_FLAGS=-Wl,--strip-debug </dev/null >"$build.log" || {
    cat "$build.log" >&2
    fail "cmake cannot configure the build, see above"
  }
cmake --build "$build" </dev/null >&2
rm -rf "$out" && mkdir -p "$out"
cmake --install "$build" --prefix "$tree" >/dev/null
# The oldest glibc that has all symbols.
glibc=$(python3 scripts/packaging/elf_versions.py "$tree")

pack() {
  local file=$out/$1.tar.gz limit_mib=$2 bytes
  tar -C "$out" --owner=0 --group=0 --sort=name --mtime="@$SOURCE_DATE_EPOCH" -c "$1" | gzip -n >"$file"
  bytes=$(stat -c %s "$file")
  if [ "$bytes" -gt $((limit_mib << 20)) ]; then
    fail "$file has $bytes bytes, more than $limit_mib MiB"
  fi
  echo "$file: $bytes bytes, glibc $glibc"
}
pack "$name" 30
cmake -DCULPRIT_GLIBC="$glibc" "$build" >/dev/null
(cd "$build" && cpack -G DEB -B "$out" >"$build.log" 2>&1) || {
  cat "$build.log" >&2
  fail "cpack cannot make the Debian package, see above"
}
rm -rf "$out/_CPack_Packages"
scripts/packaging/wheel.py "$tree" interpose/python_package README.md "$out"
(cd "$out" && sha256sum -- *.tar.gz *.deb *.whl >SHA256SUMS)
# For the test that the tag of the wheel is right.
auditwheel='auditwheel==6.8.2'
if [ "$(cat "$deps/auditwheel/complete" 2>/dev/null)" != "$auditwheel" ]; then
  rm -rf "$deps/auditwheel"
  if PIP_ROOT_USER_ACTION=ignore python3 -m pip install -q --disable-pip-version-check --only-binary=:all: \
    --target "$deps/auditwheel" "$auditwheel" </dev/null >&2; then
    echo "$auditwheel" >"$deps/auditwheel/complete"
  else
    say "without PyPI the tag of the wheel is not tested"
  fi
fi

$with_tests || exit 0
scripts/cudart-versions.sh build/deps
scripts/pycuda-source.sh build/deps
scripts/build.sh >&2
tests=culprit-$version-gpu-tests-linux-$(uname -m)
cp -a "$tree" "$out/$tests"
rm -r "$out/$tests/lib/culprit/demo"
cd "$out/$tests"
# The layout of build/, because the process tests find programs by relative paths.
cp "$root"/build/bin/{process_test,guest_test} bin/
strip --strip-debug bin/process_test bin/guest_test
cp -a "$root/build/subjects" "$root/build/examples" "$root/build/bench" "$root/build/simcuda" "$root/build/guest" .
rm -f bench/bench_micro  # needs libbenchmark.so
cp -r "$root/interpose/python_package" python_package
cp -r "$root/build/deps/pycuda-source" pycuda_source
mkdir -p sources/examples/python scripts tests/gpu tests/bench tests/guest tests/support
cp "$root"/examples/*.cpp "$root"/examples/*.h sources/examples/
cp "$root"/examples/python/*.py sources/examples/python/
cp "$root"/scripts/{bench.sh,check-examples.py,fail.sh,gpu-test.sh,has-gpu.sh} scripts/
cp "$root"/tests/gpu/*.py "$root"/tests/gpu/*.cu tests/gpu/
cp "$root"/tests/bench/*.py tests/bench/
cp "$root"/tests/support/*.py tests/support/
cp "$root"/tests/guest/soak.py "$root"/tests/guest/soak_attach.py tests/guest/
git -C "$root" rev-parse HEAD >REVISION
cp "$root"/build/gpu/* tests/gpu/
find . \( -name CMakeFiles -o -name '*.cmake' -o -name __pycache__ \) -prune -exec rm -rf {} +
rm -rf lib/cmake lib/pkgconfig
pack "$tests" 60
