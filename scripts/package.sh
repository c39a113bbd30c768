#!/usr/bin/env bash
# Makes the relocatable package: scripts/package.sh [--with-tests]
#
# build/package/culprit-VERSION-linux-ARCH.tar.gz has both programs, the manual pages and the libraries that the command
# needs. With --with-tests build/package/culprit-VERSION-gpu-tests-linux-ARCH.tar.gz has prebuilt tests too, for
# scripts/gpu-test.sh.
#
# The package runs wherever glibc is at least as new as on this machine. It contains elfutils' libraries in
# lib/culprit/; the files that need them find them by a relative path.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
with_tests=false
case "${1:-}" in
  "") ;;
  --with-tests) with_tests=true ;;
  *) sed -n '2,6s/^# //p' "$0" >&2; exit 2 ;;
esac
scripts/install-packages.sh patchelf binutils
if $with_tests; then
  scripts/cudart-versions.sh build/deps
  scripts/pycuda-source.sh build/deps
fi
scripts/build.sh -DCMAKE_INSTALL_LIBDIR=lib >&2
version=$(sed -nE 's/^project\(culprit VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
name=culprit-$version-linux-$(uname -m)
out=$root/build/package
tree=$out/$name
rm -rf "$out" && mkdir -p "$out"
cmake --install build --prefix "$tree" >/dev/null
# Symbol tables stay, so that a backtrace of a crash has names of functions.
strip --strip-debug "$tree/bin/culprit" "$tree/lib/libculprit.so"

# Libraries that the command needs beyond glibc, and their own libraries.
bundle=$tree/lib/culprit
licences=$tree/share/doc/culprit/licences
mkdir -p "$bundle" "$licences"
# shellcheck disable=SC2016  # the loader replaces $ORIGIN
patchelf --set-rpath '$ORIGIN/../lib/culprit' "$tree/bin/culprit"
while read -r soname path; do
  case "$soname" in
    libc.so.*|libm.so.*|libdl.so.*|libpthread.so.*|librt.so.*|libresolv.so.*|ld-linux*|linux-vdso*) continue ;;
  esac
  cp -L "$path" "$bundle/$soname"
  # The run path of the executable does not hold for the libraries that a library needs.
  # shellcheck disable=SC2016
  patchelf --set-rpath '$ORIGIN' "$bundle/$soname"
  # dpkg knows a file as /lib/... or as /usr/lib/..., before or after the merge of the two.
  file=$(readlink -f "$path")
  owner=$(dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "${file#/usr}" 2>/dev/null || true)
  owner=${owner%%:*}
  if [ -z "$owner" ] || [ ! -f "/usr/share/doc/$owner/copyright" ]; then
    echo "package.sh: no licence found for $path" >&2
    exit 1
  fi
  cp -L "/usr/share/doc/$owner/copyright" "$licences/$owner"
done < <(ldd build/bin/culprit | sed -nE 's/^\s*(\S+) => (\/\S+) .*/\1 \2/p')
# Packages whose code is inside the two programs.
for package in nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev libutf8proc-dev node-d3; do
  cp -L "/usr/share/doc/$package/copyright" "$licences/$package"
done
cp -L "$(printf '%s\n' /usr/share/doc/gcc-*-base | sort -V | tail -1)/copyright" "$licences/libstdc++"
cp "$root/build/deps/libunwind/COPYING" "$licences/libunwind"

pack() {
  local file=$out/$1.tar.gz limit_mib=$2 bytes
  tar -C "$out" --owner=0 --group=0 --sort=name -czf "$file" "$1"
  bytes=$(stat -c %s "$file")
  if [ "$bytes" -gt $((limit_mib << 20)) ]; then
    echo "package.sh: $file has $bytes bytes, more than $limit_mib MiB" >&2
    exit 1
  fi
  echo "$file: $bytes bytes"
}
pack "$name" 30

# The package must run in any folder, and glibc must be all that it takes from the system.
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
tar -C "$probe" -xzf "$out/$name.tar.gz"
env -i PATH=/usr/bin:/bin "$probe/$name/bin/culprit" --version >/dev/null
if command -v python3 >/dev/null; then "$probe/$name/bin/culprit-nightly" --help >/dev/null; fi
foreign=$(env -i ldd "$probe/$name/bin/culprit" | sed -nE 's/^\s*(\S+) => (\/\S+) .*/\1 \2/p' |
  grep -vE '^lib(c|m|dl|pthread|rt|resolv)\.so' | grep -v " $probe/" || true)
[ -z "$foreign" ] || { echo "package.sh: taken from the system: $foreign" >&2; exit 1; }

$with_tests || exit 0
tests=culprit-$version-gpu-tests-linux-$(uname -m)
cp -a "$tree" "$out/$tests"
cd "$out/$tests"
# The layout of build/, because the process tests find programs by relative paths.
cp "$root"/build/bin/{process_test,guest_test} bin/
cp -a "$root/build/subjects" "$root/build/examples" "$root/build/bench" "$root/build/simcuda" "$root/build/guest" .
rm -f bench/bench_micro  # needs libbenchmark.so
cp -r "$root/interpose/python" python_package
cp -r "$root/build/deps/pycuda-source" pycuda_source
mkdir -p sources/examples/python scripts tests/gpu tests/bench tests/support
cp "$root"/examples/*.cpp "$root"/examples/*.h sources/examples/
cp "$root"/examples/python/*.py sources/examples/python/
cp "$root"/scripts/{bench.sh,check-examples.py,gpu-test.sh,has-gpu.sh} scripts/
cp "$root"/tests/gpu/*.py tests/gpu/
cp "$root"/tests/bench/*.py tests/bench/
cp "$root"/tests/support/*.py tests/support/
git -C "$root" rev-parse HEAD >REVISION
cp "$root"/build/gpu/* tests/gpu/
find . \( -name CMakeFiles -o -name '*.cmake' -o -name __pycache__ \) -prune -exec rm -rf {} +
rm -rf lib/cmake lib/pkgconfig
pack "$tests" 60
