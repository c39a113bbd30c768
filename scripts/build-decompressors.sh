#!/usr/bin/env bash
# Builds the decompressors of device code that libculprit.so links: scripts/build-decompressors.sh DEPS_FOLDER
#
# DEPS_FOLDER/decompressors gets one static library with the decoders of zstd and LZ4, from pinned files
# (decompressors/source.txt). CC chooses the compiler. Distributions' static libraries call malloc() and may not be
# position-independent: here nothing is allocated, the caller brings all memory, and no code is chosen by the processor.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
deps=${1:?usage: scripts/build-decompressors.sh DEPS_FOLDER}
scripts=$(cd "$(dirname "$0")" && pwd)
# The stamp changes with every file that the build depends on.
stamp=$({ cat "$0" "$scripts"/decompressors/*; "${CC:-cc}" --version 2>/dev/null || true; } | sha256sum | cut -c 1-64)
[ "$(cat "$deps/decompressors/stamp" 2>/dev/null)" = "$stamp" ] && exit 0
mkdir -p "$deps"
deps=$(cd "$deps" && pwd)
prefix=$deps/decompressors work=$deps/decompressors-source
rm -rf "$work" "$prefix" && mkdir -p "$work" "$prefix/lib" "$prefix/include" "$prefix/licences"

files=$("$scripts/fetch.py" "$scripts/decompressors/source.txt" "$deps/downloads")
while read -r file; do
  tar -C "$work" -xf "$file"
done <<<"$files"
cd "$work"
zstd=$(echo "$work"/zstd-*/lib) lz4=$(echo "$work"/lz4-*/lib)
cp "$zstd/zstd.h" "$zstd/zstd_errors.h" "$lz4/lz4.h" "$prefix/include/"
cp "$work"/zstd-*/LICENSE "$prefix/licences/zstd"
cp "$lz4/LICENSE" "$prefix/licences/lz4"
flags=(-O2 -g1 -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -fasynchronous-unwind-tables
  -fno-stack-protector -U_FORTIFY_SOURCE -w)
# The functions that allocate are not called; without a body for malloc() they could not be left out.
zstd_flags=(-DZSTD_DISABLE_ASM -DDYNAMIC_BMI2=0 -DZSTD_LEGACY_SUPPORT=0 -DZSTD_STRIP_ERROR_STRINGS -DZSTD_TRACE=0
  -DDEBUGLEVEL=0 -DXXH_NAMESPACE=ZSTD_ -DZSTD_DEPS_MALLOC '-DZSTD_malloc(bytes)=((void*)0)'
  '-DZSTD_calloc(count,bytes)=((void*)0)' '-DZSTD_free(memory)=((void)(memory))')
for source in "$zstd"/common/{debug,entropy_common,error_private,fse_decompress,xxhash,zstd_common}.c \
  "$zstd"/decompress/*.c; do
  ${CC:-cc} "${flags[@]}" "${zstd_flags[@]}" -I"$zstd/common" -c "$source" -o "$(basename "$source" .c).o"
done
memory=(-D'LZ4_memcpy(to,from,bytes)=__builtin_memcpy(to,from,bytes)'
  -D'LZ4_memmove(to,from,bytes)=__builtin_memmove(to,from,bytes)'
  -D'LZ4_memset(to,byte,bytes)=__builtin_memset(to,byte,bytes)')
${CC:-cc} "${flags[@]}" -DLZ4_FREESTANDING=1 "${memory[@]}" -c "$lz4/lz4.c" -o lz4.o
ar rcs "$prefix/lib/libdecompressors.a" ./*.o
brought='^(ZSTD_|HUF_|FSE_|HIST_|XXH|ERR_|_GLOBAL_OFFSET|mem(cpy|move|set)$)'
needed=$(nm -u "$prefix/lib/libdecompressors.a" | awk '$1 == "U" { print $2 }' | grep -Ev "$brought" || true)
[ -z "$needed" ] || fail "the decompressors need: $needed"
echo "$stamp" >"$prefix/stamp"  # last: the stamp means that the build is complete
echo "decompressors: $prefix/lib/libdecompressors.a"
