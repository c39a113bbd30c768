#!/usr/bin/env bash
# Builds the static, position-independent libunwind that libculprit.so links: scripts/build-libunwind.sh DEPS_FOLDER
#
# Debian's libunwind.a is not PIC, and Debian's libunwind.so must not enter a preloaded library's dependencies: it exports
# _Unwind_RaiseException and would take over the C++ exceptions of every process that does not itself need libgcc_s. So we
# take the distribution's *source* package, with its patches, and configure it without what we do not need: no shared
# library, no C++ exceptions, no compressed debug info (it would drag in liblzma).
#
# The source list and the package lists are private to this script; the machine's own apt configuration stays as it is.
set -euo pipefail
deps=${1:?usage: scripts/build-libunwind.sh DEPS_FOLDER}
prefix=$deps/libunwind
[ -f "$prefix/lib/libunwind.a" ] && [ -f "$prefix/COPYING" ] && exit 0
mkdir -p "$deps"
deps=$(cd "$deps" && pwd)
prefix=$deps/libunwind
work=$deps/libunwind-source
rm -rf "$work" && mkdir -p "$work/lists/partial"

# The mirrors that the machine already uses, as source entries: both apt formats (one-line and deb822).
{
  grep -hE '^deb(-src)? ' /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -E 's/^deb(-src)? (\[[^]]*\] )?/deb-src \2/' || true
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] || continue
    awk 'BEGIN { RS = ""; FS = "\n" }
         { uris = suites = components = signed = ""
           for (i = 1; i <= NF; i++) {
             if ($i ~ /^URIs:/)       { uris = $i;       sub(/^URIs: */, "", uris) }
             if ($i ~ /^Suites:/)     { suites = $i;     sub(/^Suites: */, "", suites) }
             if ($i ~ /^Components:/) { components = $i; sub(/^Components: */, "", components) }
             if ($i ~ /^Signed-By: *\//) { signed = $i;  sub(/^Signed-By: */, "", signed); signed = "[signed-by=" signed "] " }
           }
           n = split(suites, suite, " "); m = split(uris, uri, " ")
           for (u = 1; u <= m; u++) for (s = 1; s <= n; s++) print "deb-src " signed uri[u] " " suite[s] " " components }' "$file"
  done
} | grep -E 'debian|ubuntu' | sort -u >"$work/sources.list"

apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
     -o "Dir::State::Lists=$work/lists" -o "Dir::Cache::srcpkgcache=" -o "Dir::Cache::pkgcache=" -o APT::Sandbox::User=root)
"${apt[@]}" update </dev/null
(cd "$work" && "${apt[@]}" source libunwind </dev/null)
source_folder=$(find "$work" -mindepth 1 -maxdepth 1 -type d -name 'libunwind-*' | head -1)
[ -n "$source_folder" ] || { echo "build-libunwind.sh: apt-get source libunwind brought no folder" >&2; exit 1; }

cd "$source_folder"
# libunwind asks whether an address can be read by writing it into a pipe of its own. Inside somebody else's process that is two
# descriptors too many: a daemon closes them, opens its own files under the same numbers, and our bytes land in them. The same
# question without a descriptor: rt_sigprocmask with an impossible `how` reads the address first (EFAULT) and refuses then
# (EINVAL); abseil does the same (absl/debugging/internal/address_is_readable.cc).
for file in src/x86_64/Ginit.c src/aarch64/Ginit.c; do
  sed -i -E -e 's/^  do_pipe2 \(mem_validate_pipe\);//' -e 's/^write_validate \(void \*addr\)/pipe_validate (void *addr)/' "$file"
  awk '/^static int \(\*mem_validate_func\)/ && !done {
         print "#include <sys/syscall.h>"
         print "static int write_validate (void *addr)"
         print "{"
         print "  syscall (SYS_rt_sigprocmask, ~0, addr, 0, 8);"
         print "  return errno == EFAULT ? -1 : 0;"
         print "}"
         done = 1
       } { print }' "$file" >"$file.patched"
  mv "$file.patched" "$file"
  grep -q SYS_rt_sigprocmask "$file" && ! grep -q '^  do_pipe2 (mem_validate_pipe)' "$file" ||
    { echo "build-libunwind.sh: $file is not as expected: its memory validation would open a pipe in every target" >&2; exit 1; }
done
[ -x configure ] || autoreconf -fi
CFLAGS="-O2 -g -fPIC -fvisibility=hidden -fasynchronous-unwind-tables" ./configure --quiet --prefix="$prefix" --with-pic \
  --disable-shared --enable-static --disable-minidebuginfo --disable-zlibdebuginfo --disable-cxx-exceptions \
  --disable-ptrace --disable-coredump --disable-setjmp --disable-tests --disable-documentation >/dev/null
make -s -j"$(nproc)" >/dev/null 2>"$work/make.log" || { tail -20 "$work/make.log" >&2; exit 1; }
make -s install >/dev/null 2>&1
# interpose/unwind_rule.c looks at the rule that an unwinding step applied, which only the private headers describe.
mkdir -p "$prefix/private"
cp -rL include/. "$prefix/private/"
cp src/*.h "$prefix/private/"
cp COPYING "$prefix/"  # the package carries it
rm -rf "$work/lists"
echo "libunwind: $prefix/lib/libunwind.a"
