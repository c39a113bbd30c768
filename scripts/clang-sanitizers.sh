#!/usr/bin/env bash
# Installs clang++ with its sanitizers and libFuzzer: scripts/clang-sanitizers.sh
#
# Debian and Ubuntu. Exit code 1: they do not work here.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
cd "$(dirname "$0")/.."
works() { echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }' |
  clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null; }
if works; then exit 0; fi
scripts/install-packages.sh clang || true
runtimes=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p')
[ -z "$runtimes" ] || scripts/install-packages.sh "$runtimes" || true
works || fail "clang++ cannot build a program with libFuzzer, ASan and UBSan"
