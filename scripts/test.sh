#!/usr/bin/env bash
# Builds and tests: scripts/test.sh [ctest options...]
#
# Without options the script runs the unit tests under ASan and UBSan (build-asan/) and under TSan (build-tsan/), the
# fuzz targets for 2 seconds each (build-asan/), and then all tests of build/ on the simulated driver. ctest's summary,
# the time of each part, and the slowest 20 tests and files to compile come last. With options, for example `-L unit` or
# `-R frees`, it builds the targets that those tests of build/ need, runs only them, and installs no optional packages.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
# `python3` may be a script of pyenv's that looks for the interpreter, a tenth of a second of processor time for each of
# the thousand starts: the tests find the interpreter itself first.
if python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null); then PATH=$(dirname "$python"):$PATH; fi
# No report shows the symbols that an earlier one looked up.
export CULPRIT_CACHE=off
# One more than there are processors: many tests wait for a program's time to pass.
run_ctest() { ctest --output-on-failure --parallel "$(($(nproc) + 1))" "$@" </dev/null; }
if [ $# -gt 0 ]; then
  scripts/build.sh --configure
  lines_of scripts/test_targets.py build "$@"
  [ ${#lines[@]} -eq 0 ] || cmake --build build --target "${lines[@]}" </dev/null
  run_ctest --test-dir build "$@"
  exit
fi

# part_ends NAME: the seconds since the last part's end, and those of processors in commands that ended meanwhile. Tests
# in the background belong to the last part, which waits for them.
clock=$(mktemp)
trap 'rm -f "$clock"' EXIT
parts=() part_seconds=0 part_used=0
part_ends() {
  times >"$clock"
  local used seconds=$SECONDS
  used=$(awk -F '[ms, ]+' 'NR == 2 { print int(60 * ($1 + $3) + $2 + $4) }' "$clock")
  parts+=("$(printf '%6d s %6d s  %s' $((seconds - part_seconds)) $((used - part_used)) "$1")")
  part_seconds=$seconds part_used=$used
}

# optional EFFECT COMMAND...: COMMAND installs something that only some tests need. When it fails, EFFECT is printed.
optional() {
  local effect=$1
  shift
  "$@" || say "$effect"
}
packages=scripts/install-packages.sh
# One call of apt, because each takes seconds. A package that it cannot install is wanted again below, with its use.
wanted=(musl-tools valgrind libgtest-dev python3-pytest python3-pytest-xdist chromium chromium-driver python3-selenium
  mandoc ccache lld prometheus tmux gdb libc++-dev libc++abi-dev)
command -v go >/dev/null || wanted+=(golang-go)
python3 -m pip --version >/dev/null 2>&1 || wanted+=(python3-pip)
command -v mpirun >/dev/null || wanted+=(openmpi-bin)
command -v mpicc >/dev/null || wanted+=(libopenmpi-dev)
$packages "${wanted[@]}" || true
presets=(asan tsan)
if ! scripts/clang-sanitizers.sh; then
  say "without clang++ and its sanitizers no unit test runs under ASan, UBSan and TSan, nothing is fuzzed," \
    "exceptions are tested with one compiler"
  presets=()
fi
optional "without libc++ its containers are not tested" $packages libc++-dev libc++abi-dev
# tests/subjects/other_worlds.cmake: programs of another libc, under valgrind, and with the sanitizers of clang.
optional "without musl-tools and valgrind programs of another libc, and memory errors, are not tested" \
  $packages musl-tools valgrind
# `go tool pprof` reads the pprof format.
command -v go >/dev/null || optional "without Go the pprof format is not tested" $packages golang-go
optional "without PyCUDA the Python examples are left out" scripts/pycuda.sh build/deps
optional "without GoogleTest and pytest the support for them is not tested" \
  $packages libgtest-dev python3-pytest python3-pytest-xdist
optional "without Chromium HTML reports are not tested in a browser" $packages chromium chromium-driver python3-selenium
command -v mpirun >/dev/null || optional "without mpirun jobs of several ranks are not tested" $packages openmpi-bin
command -v mpicc >/dev/null || optional "without mpicc merging over MPI is not tested" $packages libopenmpi-dev
# promtool, and a server that scrapes.
optional "without Prometheus the metrics and their alert rules are checked less" $packages prometheus
# A tracer of USDT probes that needs no rights of the kernel.
optional "without gdb the probes of the library are tested less" $packages gdb
optional "without tmux the screen of culprit top is not tested" $packages tmux
# Checks the manual pages.
optional "without mandoc the manual pages are checked less" $packages mandoc
# The test of a fresh clone (tests/package/newcomer_test.py) takes the objects of this build from a cache, where this
# build is a new one. The cache lies in build/, because objects name the folder that they were compiled in.
optional "without ccache the test of a fresh clone takes minutes" $packages ccache
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
  # Python sets LC_CTYPE for its children where no language is set, and the cache would take it for another one.
  export CCACHE_SLOPPINESS=locale
  export CCACHE_DIR=${CCACHE_DIR:-$root/build/ccache} CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root}
fi
# Only tests that run need these: they are brought while the build goes on. pip itself is there by now, because apt
# must not run twice at once.
bring_from_pypi() {
  optional "without PyPI the Python package is tested with one pytest only, without mypy, IPython and web servers" \
    scripts/python-tools.sh build/deps
  optional "without PyPI SARIF, JUnit and Perfetto are not tested with other readers" \
    scripts/format-readers.sh build/deps
  optional "without PyPI pages are not checked with axe-core" scripts/axe-core.sh build/deps
}
bring_from_pypi &
from_pypi=$!
part_ends "installation"
scripts/build.sh
part_ends "build/"

# TSan cannot lay out its shadow memory where the kernel randomizes addresses with more than 28 bits.
fixed_addresses=()
without_randomization=(setarch "$(uname -m)" --addr-no-randomize)
if "${without_randomization[@]}" true 2>/dev/null; then fixed_addresses=("${without_randomization[@]}"); fi

# The targets called *_unit_test. Other tests preload the library, which a sanitizer's runtime does not allow. They run
# while other things are built and run, because each has one thread only and takes minutes.
unit_tests_of() {
  ninja -C "$1" -t targets all | sed -nE 's/^([a-z0-9_]+_unit_test): phony.*/\1/p' | grep -v '^cmake_' | sort -u
}
failed=()
running=()
names=()
configuring=()
for preset in "${presets[@]}"; do
  env -u CMAKE_C_COMPILER_LAUNCHER -u CMAKE_CXX_COMPILER_LAUNCHER cmake --preset "$preset" </dev/null >/dev/null &
  configuring+=($!)
done
for pid in "${configuring[@]}"; do wait "$pid" || fail "cmake cannot configure a build with sanitizers, see above"; done
for preset in "${presets[@]}"; do
  lines_of unit_tests_of "build-$preset"; targets=("${lines[@]}")
  cmake --build "build-$preset" --target "${targets[@]}" </dev/null
  # Inputs and reports of many megabytes take minutes under a sanitizer. A filter would run hidden tests, so it names
  # them.
  left_out=("~[limits]~[scale]~[.]")
  # These have one thread only, and take long: there is nothing for TSan to see.
  if [ "$preset" = tsan ]; then left_out=("~[damage]~[one-thread]~[limits]~[scale]~[.]"); fi
  for target in "${targets[@]}"; do
    "${fixed_addresses[@]}" "build-$preset/bin/$target" "${left_out[@]}" --durations yes </dev/null \
      >"build-$preset/$target.log" 2>&1 &
    running+=($!)
    names+=("$preset:$target")
  done
  part_ends "build-$preset/"
done
echo "== fuzz targets, 2 seconds each"
scripts/fuzz.sh --preset asan --seconds 2 || failed+=(fuzz)
part_ends "fuzz targets"
# Tests with the label gpu would only say that they are skipped.
left_out=()
scripts/has-gpu.sh >/dev/null 2>&1 || left_out=(--label-exclude '^gpu$')
echo "== all tests on the simulated driver${left_out[*]:+; no GPU here: those with the label gpu are left out}"
wait "$from_pypi"
rm -f build/tests.xml
# Some tests depend on the time that other programs leave them, and fail once in twenty runs on two busy processors.
# They are named, and run once more with nothing beside them; what fails again has failed.
run_ctest --test-dir build --output-junit "$root/build/tests.xml" "${left_out[@]}" || {
  echo "== failed once, and run again:"
  cut -d: -f2- build/Testing/Temporary/LastTestsFailed.log || true
  ctest --output-on-failure --test-dir build --rerun-failed </dev/null || failed+=(build)
}
for i in "${!names[@]}"; do
  log=build-${names[$i]/://}.log
  if wait "${running[$i]}"; then
    echo "== ${names[$i]/:/: }: $(grep -v '^$' "$log" | tail -n 1)"
  else
    failed+=("${names[$i]}")
    echo "== ${names[$i]/:/: } failed"
    grep -vE '^[0-9.]+ s: ' "$log"
  fi
done
part_ends "tests"
echo "== parts: seconds, and those of processors"
printf '%s\n' "${parts[@]}"
scripts/slowest.py build/tests.xml build build-asan build-tsan
if [ ${#failed[@]} -gt 0 ]; then
  fail "failed: ${failed[*]}"
fi
