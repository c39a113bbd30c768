#!/usr/bin/env bash
# Builds and tests: scripts/test.sh [ctest options...]
#
# Without options: the unit tests under ASan+UBSan (build-asan/) and under TSan (build-tsan/, without those tagged [damage]), then all tests of build/ on the simulated
# driver; ctest's summary of the latter comes last. With options, e.g. `-L unit` or `-R frees`, only those tests of build/.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
run_ctest() { ctest --output-on-failure --parallel "$(nproc)" "$@" </dev/null; }
# A few tests: nothing that is optional is installed for them.
if [ $# -gt 0 ]; then
  scripts/build.sh
  run_ctest --test-dir build "$@"
  exit
fi

# The subjects that throw exceptions are built with it too.
scripts/install-packages.sh clang || echo "test.sh: without clang++ exceptions are tested with one compiler" >&2
# Programs with clang's sanitizers, of another libc, and under valgrind (tests/subjects/other_worlds.cmake).
scripts/install-packages.sh musl-tools valgrind || echo "test.sh: without musl-tools and valgrind programs of another libc, and memory errors, are not tested" >&2
scripts/install-packages.sh "$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p')" || echo "test.sh: without clang's runtimes its sanitizers are not tested" >&2
# `go tool pprof` reads the pprof format.
command -v go >/dev/null || scripts/install-packages.sh golang-go || echo "test.sh: without Go nothing reads the pprof format" >&2
# The Python examples are PyCUDA's.
scripts/pycuda.sh build/deps || echo "test.sh: without PyCUDA the Python examples are left out" >&2
# Test programs with culprit's listener, and the pytest plugin.
scripts/install-packages.sh libgtest-dev python3-pytest python3-pytest-xdist || echo "test.sh: without GoogleTest and pytest culprit's support of them is not tested" >&2
# Read SARIF and JUnit reports.
scripts/format-readers.sh build/deps || echo "test.sh: without PyPI no other reader looks at SARIF and JUnit" >&2
# A browser looks at the HTML report.
scripts/install-packages.sh chromium chromium-driver python3-selenium || echo "test.sh: without Chromium nobody looks at HTML reports" >&2
# Starts the ranks of a job.
command -v mpirun >/dev/null || scripts/install-packages.sh openmpi-bin || echo "test.sh: without mpirun no job of several ranks is tested" >&2
scripts/build.sh

# gcc 12's TSan cannot lay out its shadow memory where the kernel randomizes addresses with more than 28 bits.
fixed_addresses=()
if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then fixed_addresses=(setarch "$(uname -m)" --addr-no-randomize); fi

# Only the unit tests (targets called *_unit_test): a sanitizer's runtime and LD_PRELOAD do not mix.
failed=()
for preset in asan tsan; do
  cmake --preset "$preset" </dev/null >/dev/null
  mapfile -t targets < <(ninja -C "build-$preset" -t targets all | sed -nE 's/^([a-z0-9_]+_unit_test): phony.*/\1/p' | grep -v '^cmake_' | sort -u)
  cmake --build "build-$preset" --target "${targets[@]}" </dev/null
  # The tests of damaged input are single-threaded.
  left_out=()
  if [ "$preset" = tsan ]; then left_out=("~[damage]~[.]"); fi  # hidden ones are not hidden from a filter
  running=()
  for target in "${targets[@]}"; do
    "${fixed_addresses[@]}" "build-$preset/bin/$target" "${left_out[@]}" </dev/null >"build-$preset/$target.log" 2>&1 &
    running+=($!)
  done
  for i in "${!targets[@]}"; do
    wait "${running[$i]}" || failed+=("$preset:${targets[$i]}")
    echo "== $preset: ${targets[$i]}"
    cat "build-$preset/${targets[$i]}.log"
  done
done
echo "== all tests on the simulated driver"
run_ctest --test-dir build || failed+=(build)
if [ ${#failed[@]} -gt 0 ]; then
  echo "test.sh: failed: ${failed[*]}" >&2
  exit 1
fi
