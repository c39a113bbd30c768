#!/usr/bin/env bash
# Builds the static libraries of `culprit metrics`: scripts/build-prometheus.sh DEPS_FOLDER
#
# DEPS_FOLDER/prometheus gets the text format of prometheus-cpp and the web server CivetWeb, from pinned files
# (prometheus/source.txt). CC and CXX choose the compilers. Debian's packages have shared libraries only: these need a
# shared libstdc++ beside the static one of the command, with a second state of its locales, and they would have to
# travel with the packages of culprit. CivetWeb is built without TLS, CGI and files: a request has fewer places to go.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
deps=${1:?usage: scripts/build-prometheus.sh DEPS_FOLDER}
scripts=$(cd "$(dirname "$0")" && pwd)
# The stamp changes with every file that the build depends on.
stamp=$({ cat "$0" "$scripts"/prometheus/*; for compiler in "${CC:-cc}" "${CXX:-c++}"; do
  $compiler --version 2>/dev/null || true; done; } | sha256sum | cut -c 1-64)
[ "$(cat "$deps/prometheus/stamp" 2>/dev/null)" = "$stamp" ] && exit 0
mkdir -p "$deps"
deps=$(cd "$deps" && pwd)
prefix=$deps/prometheus work=$deps/prometheus-source
rm -rf "$work" "$prefix" && mkdir -p "$work" "$prefix/lib" "$prefix/include"

files=$("$scripts/fetch.py" "$scripts/prometheus/source.txt" "$deps/downloads")
while read -r file; do
  tar -C "$work" -xf "$file"
done <<<"$files"
cd "$work"
core=$(echo "$work"/prometheus-cpp-*/core) civetweb=$(echo "$work"/civetweb-*)
cp -r "$core/include/prometheus" "$prefix/include/"
cp "$scripts/prometheus/core_export.h" "$prefix/include/prometheus/detail/"
cp "$civetweb/include/civetweb.h" "$prefix/include/"
flags=(-O2 -g1 -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -fstack-protector-strong
  -D_FORTIFY_SOURCE=2 -w)
# A thread for each client: small stacks. The functions need 20 KiB.
server=(-DNO_SSL -DNO_CGI -DNO_CACHING -DNO_FILES -DUSE_IPV6 -DREENTRANT_TIME -DNDEBUG -DUSE_STACK_SIZE=262144)
# CC and CXX may have arguments.
for source in serializer text_serializer; do
  ${CXX:-c++} -std=c++17 "${flags[@]}" -I"$prefix/include" -c "$core/src/$source.cc" -o "$source.o"
done
${CC:-cc} "${flags[@]}" "${server[@]}" -I"$civetweb/include" -c "$civetweb/src/civetweb.c" -o civetweb.o
ar rcs "$prefix/lib/libprometheus-text.a" serializer.o text_serializer.o
ar rcs "$prefix/lib/libcivetweb.a" civetweb.o
# For the packages.
cp "$core/../LICENSE" "$prefix/LICENSE.prometheus-cpp"
cp "$civetweb/LICENSE.md" "$prefix/LICENSE.civetweb"
cd / && rm -rf "$work"
echo "$stamp" >"$prefix/stamp"  # last: the stamp means that the build is complete
echo "prometheus: $prefix/lib/libprometheus-text.a, libcivetweb.a"
