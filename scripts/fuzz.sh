#!/usr/bin/env bash
# Runs the fuzz targets of tests/fuzz: scripts/fuzz.sh [--seconds N] [--preset asan] [TARGET...]
#
# Builds them with clang into build-fuzz/ and runs each for N seconds, by default 60, beginning with the inputs that
# failed once (tests/fuzz/regressions) and those that earlier runs found. An input that fails stays in
# build-fuzz/fuzz/failed/. With --preset asan the targets are those of build-asan/, which are built sooner and run
# slower: for a short run beside the unit tests. Exit code 1: a target failed. Without clang's libFuzzer the script says
# so and ends with 0.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
seconds=60
preset=fuzz
while true; do
  case ${1:-} in
    --seconds) seconds=${2:?fuzz.sh: --seconds needs a number} ;;
    --preset) preset=${2:?fuzz.sh: --preset needs fuzz or asan} ;;
    *) break ;;
  esac
  shift 2
done
case $preset in
  fuzz | asan) build=build-$preset ;;
  *) fail "--preset takes fuzz or asan" ;;
esac
targets=("$@")
[ $# -gt 0 ] || targets=(dump merged report_json baseline suppressions options patterns walk)

if ! scripts/clang-sanitizers.sh; then
  say "skipped: clang++ has no libFuzzer here"
  exit 0
fi
# ninja itself sees what changed in a folder that is configured, as after scripts/test.sh: that saves 16 s.
if [ ! -f "$build/build.ninja" ] || [ CMakePresets.json -nt "$build/build.ninja" ]; then
  scripts/build.sh --target culprit >&2
  env -u CMAKE_C_COMPILER_LAUNCHER -u CMAKE_CXX_COMPILER_LAUNCHER cmake --preset "$preset" </dev/null >/dev/null
fi
cmake --build "$build" --target fuzzers </dev/null >&2

work=$build/fuzz
mkdir -p "$work/failed"
failed=()
run_target() {
  local target=$1
  local known=tests/fuzz/regressions/$target
  mkdir -p "$work/found/$target"
  local folders=("$work/found/$target")
  [ ! -d "$work/corpus/$target" ] || folders+=("$work/corpus/$target")
  [ ! -d "$known" ] || folders+=("$known")
  # The limits are those of the README, times the cost of the sanitizers.
  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=0 "$build/bin/${target}_fuzzer" \
    -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=1000000 -print_final_stats=1 -close_fd_mask=1 \
    -artifact_prefix="$work/failed/$target-" "${folders[@]}" </dev/null >"$work/$target.log" 2>&1
}
# Two at a time on two processors.
running=()
for target in "${targets[@]}"; do
  run_target "$target" &
  running+=($!)
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do sleep 0.2; done
done
for i in "${!targets[@]}"; do
  target=${targets[$i]}
  if wait "${running[$i]}"; then
    echo "fuzz.sh: $target: $(sed -n 's/^stat::number_of_executed_units: */inputs: /p' "$work/$target.log")"
  else
    failed+=("$target")
    tail -60 "$work/$target.log" >&2
  fi
done
if [ ${#failed[@]} -gt 0 ]; then
  fail "failed: ${failed[*]}; the inputs are in $work/failed/"
fi
