#!/usr/bin/env bash
# Builds the static, position-independent libunwind that libculprit.so links: scripts/build-libunwind.sh DEPS_FOLDER
#
# Debian's libunwind.a is not position-independent. Debian's libunwind.so must not become a dependency of a preloaded
# library: it exports _Unwind_RaiseException and would handle the C++ exceptions of every process that does not load
# libgcc_s itself. This script therefore builds a pinned release (libunwind/source.txt, which fetch.py gets) with the
# changes of libunwind/libunwind.patch, without a shared library, without C++ exceptions, and without compressed debug
# information (which needs liblzma). CC chooses the compiler.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
deps=${1:?usage: scripts/build-libunwind.sh DEPS_FOLDER}
prefix=$deps/libunwind
scripts=$(cd "$(dirname "$0")" && pwd)
# The stamp changes with every file that the build depends on.
stamp=$({ cat "$0" "$scripts"/libunwind/*; "${CC:-cc}" --version 2>/dev/null || true; } | sha256sum | cut -c 1-64)
[ -f "$prefix/lib/libunwind.a" ] && [ "$(cat "$prefix/stamp" 2>/dev/null)" = "$stamp" ] && exit 0
mkdir -p "$deps"
deps=$(cd "$deps" && pwd)
prefix=$deps/libunwind
work=$deps/libunwind-source
rm -rf "$work" "$prefix" && mkdir -p "$work"

archive=$("$scripts/fetch.py" "$scripts/libunwind/source.txt" "$deps/downloads")
tar -C "$work" -xzf "$archive"
cd "$work"/libunwind-*
patch --quiet --strip=1 --fuzz=0 <"$scripts/libunwind/libunwind.patch"
cp "$scripts/libunwind/mempool.c" src/mi/mempool.c
flags=(-O2 -g -fPIC -fvisibility=hidden -fasynchronous-unwind-tables -ffunction-sections -fdata-sections
  -ftls-model=initial-exec -fno-stack-protector -U_FORTIFY_SOURCE)
CFLAGS="${flags[*]}" ./configure --quiet --prefix="$prefix" --with-pic \
  --disable-shared --enable-static --disable-minidebuginfo --disable-zlibdebuginfo --disable-cxx-exceptions \
  --disable-ptrace --disable-coredump --disable-setjmp --disable-tests --disable-documentation --disable-debug-frame \
  --disable-block-signals >/dev/null
make -s -j"$(nproc)" >/dev/null 2>"$work/make.log" || { tail -20 "$work/make.log" >&2; fail "make failed, see above"; }
make -s install >/dev/null 2>&1
# The parts of libunwind that interpose/ uses must not take a mutex or the loader's lock, and must not change signal
# masks.
forbidden=$(for object in Lparser Lfind_proc_info-lsb Lfind_unwind_table Lstep Linit_local Lglobal Linit Lfde mempool \
  flush_cache; do
  find src -name "$object.o" -not -path '*/.libs/*' -exec nm -u {} +
done | grep -E 'pthread_mutex|sigprocmask|sigfillset|dl_iterate_phdr|__tls_get_addr|mem_validate' || true)
[ -z "$forbidden" ] || fail "libunwind still needs: $forbidden"
# interpose/stacks/unwind_rule.c reads the rule that an unwinding step applied. Only the private headers describe it.
mkdir -p "$prefix/private"
cp -rL include/. "$prefix/private/"
cp src/*.h "$prefix/private/"
cp COPYING "$prefix/"  # for the package
echo "$stamp" >"$prefix/stamp"  # last: the stamp means that the build is complete
echo "libunwind: $prefix/lib/libunwind.a"
