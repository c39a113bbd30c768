#!/usr/bin/env bash
# Makes the compiler with which package.sh builds for old distributions: scripts/build-toolchain.sh DEPS_FOLDER
#
# DEPS_FOLDER/toolchain is a root folder with gcc 11, glibc 2.31 of Debian 11 and all libraries that the two programs
# need, from pinned files (toolchain/packages.txt). Nothing is installed and root is not needed. The compiler runs where
# glibc is 2.34 or newer, and what it makes runs where glibc is 2.28 or newer: no symbol newer than that is used, which
# tests/package/artefacts_test.py reads from the files. CMake takes DEPS_FOLDER/toolchain/toolchain.cmake.
#
# Other ways were tried on paper or in part: the system's gcc 12 needs four symbols of newer versions of glibc, one of
# them for exceptions (_dl_find_object). gcc 10 of Debian 11 has no std::from_chars for numbers with a point. Clang with
# the libc++ of ziglang (PyPI) demangles names differently, so that the ids of leaks would change. A root made by
# debootstrap needs root, and a download of everything.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
deps=${1:?usage: scripts/build-toolchain.sh DEPS_FOLDER}
scripts=$(cd "$(dirname "$0")" && pwd)
stamp=$(cat "$0" "$scripts"/toolchain/* | sha256sum | cut -c 1-64)
root=$deps/toolchain
[ "$(cat "$root/stamp" 2>/dev/null)" = "$stamp" ] && exit 0
[ "$(uname -m)" = x86_64 ] || fail "packages are made on x86-64 only"
unset LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH  # of other compilers
mkdir -p "$deps"
deps=$(cd "$deps" && pwd)
root=$deps/toolchain work=$deps/elfutils-source
rm -rf "$root" "$work" && mkdir -p "$root" "$work"

say "getting gcc 11, glibc 2.31 and elfutils"
files=$("$scripts/fetch.py" "$scripts/toolchain/packages.txt" "$deps/downloads")
while read -r file; do
  case $file in
    *.deb) ar p "$file" data.tar.xz | tar -C "$root" -xJ ;;
    *.tar.bz2) tar -C "$work" -xjf "$file" ;;
  esac
done <<<"$files"
# The parts of gcc find the libraries that they need in the root folder.
libraries=$root/usr/lib/x86_64-linux-gnu private=$root/usr/lib/culprit-gcc
mkdir -p "$private"
mv "$libraries"/lib{isl,mpc,mpfr,gmp,zstd}.so.* "$private/"
for program in cc1 cc1plus collect2 lto-wrapper lto1; do
  patchelf --set-rpath "$private" "$root/usr/lib/gcc/x86_64-linux-gnu/11/$program"
done
# Debian's links to libraries are absolute. Relative ones survive when DEPS_FOLDER is moved or copied.
find "$root" -type l -lname '/*' | while read -r link; do
  ln -sfnr "$root$(readlink "$link")" "$link"
done
cc="$root/usr/bin/x86_64-linux-gnu-gcc-11 --sysroot=$root"
# libstdc++ asks this variable of glibc 2.32 whether there is one thread only. No is always a right answer.
echo '__attribute__((visibility("hidden"))) char __libc_single_threaded;' |
  $cc -x c -O2 -fPIC -c -o "$work/old_glibc.o" -
ar rs "$root/usr/lib/gcc/x86_64-linux-gnu/11/libstdc++.a" "$work/old_glibc.o"

cd "$work"/elfutils-*
flags=(--quiet --prefix=/usr --libdir=/usr/lib/x86_64-linux-gnu --disable-nls --disable-debuginfod
  --enable-libdebuginfod=dummy --with-zlib --with-bzlib --with-lzma)
log=$work/log
if ! { CC=$cc CXX="$root/usr/bin/x86_64-linux-gnu-g++-11 --sysroot=$root" CFLAGS='-O2 -g1' ./configure "${flags[@]}" &&
  for folder in config lib libelf libcpu backends libebl libdwelf libdwfl libdw; do
    make -s -j"$(nproc)" -C "$folder" CFLAGS='-O2 -g1 -Wno-error'
  done &&
  for folder in config libelf libebl libdwelf libdwfl libdw; do make -s -C "$folder" install DESTDIR="$root"; done; \
} >"$log" 2>&1; then
  tail -30 "$log" >&2
  fail "elfutils cannot be built, see above"
fi
# Parts of a package: the shared libraries, which find each other, and the licences of all code in it.
bundle=$root/bundle
mkdir -p "$bundle/licences"
for name in libdw.so.1 libelf.so.1 libz.so.1 liblzma.so.5 libbz2.so.1.0; do
  file=$(find "$root/usr/lib" "$root/lib" -name "$name" -print -quit)
  cp -L "$file" "$bundle/$name"
  chmod 0644 "$bundle/$name"
  strip --strip-debug "$bundle/$name"
  # shellcheck disable=SC2016  # the loader replaces $ORIGIN
  patchelf --set-rpath '$ORIGIN' "$bundle/$name"
done
cat COPYING COPYING-LGPLV3 COPYING-GPLV2 >"$bundle/licences/elfutils"
for package in zlib1g liblzma5 libbz2-1.0 nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev libutf8proc-dev \
  libtinfo6 node-d3 gcc-11-base; do
  cp -L "$root/usr/share/doc/$package/copyright" "$bundle/licences/$package"
done
cp "$scripts/toolchain/toolchain.cmake" "$root/"
cd / && rm -rf "$work"
echo "$stamp" >"$root/stamp"  # last: the stamp means that the folder is complete
echo "toolchain: $root" >&2
