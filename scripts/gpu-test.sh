#!/usr/bin/env bash
# Runs the tests on a GPU: scripts/gpu-test.sh [--only tests|checks|alone] [TARBALL|FOLDER]
#                          scripts/gpu-test.sh --check CHECK BUILD_FOLDER
#
# TARBALL is a package of scripts/package.sh --with-tests, FOLDER an unpacked one; by default the tree of this script.
# Nothing is installed or downloaded: the machine needs a driver, a libcudart.so.13 and Python 3. Tests whose framework
# or tool (PyTorch, CuPy, Numba, cuda-python, JAX, compute-sanitizer, the compiler for PyCUDA) is not there are skipped
# rows. Prints a table. Exit code 1: a row failed; 2: there is no GPU, or no package.
#
# --only runs one part: the process tests and guest programs; the tests of attach, the examples and the checks that may
# run beside one another; or the checks that need the GPU for themselves. Each takes four to seven minutes on an H100,
# whose driver starts a few processes a second and not more.
#
# --check runs one check from a build tree, as ctest does: process, guests, examples, or the name of a script in
# tests/gpu. Exit code 77: there is no GPU, or every row was skipped.
#
# Each part of the run prints its rows when it ends, and has a time limit: CULPRIT_GPU_LIMIT seconds (480) for the parts
# of the test programs and the examples, 300 for each other check and for the tests of attach. A part that reaches it is
# a failed row, which names the test that was running.
set -uo pipefail
. "$(dirname "$0")/fail.sh"
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
# end_programs_of NAME=VALUE: all that were started with this variable. Programs that outlive their time limit, or this
# script, would disturb what needs the GPU for itself.
end_programs_of() {
  local file pid
  for file in /proc/[0-9]*/environ; do
    pid=$(basename "$(dirname "$file")")
    if [ "$pid" != $$ ] && tr '\0' '\n' 2>/dev/null <"$file" | grep -qxF "$1"; then kill -KILL "$pid" 2>/dev/null; fi
  done
}
export CULPRIT_GPU_RUN=$work
trap 'end_programs_of "CULPRIT_GPU_RUN=$work"; rm -rf "$work"' EXIT
trap 'exit 143' INT TERM
check='' only=''
if [ "${1:-}" = --only ]; then
  case ${2:-} in
    tests | checks | alone) only=$2 ;;
    *) wrong_usage "--only takes tests, checks or alone" ;;
  esac
  shift 2
fi
if [ "${1:-}" = --check ]; then
  [ $# -eq 3 ] || wrong_usage "--check takes CHECK and BUILD_FOLDER"
  check=$2
  shift 2
fi
tree=${1:-$here/..}
if [ -f "$tree" ]; then
  tar -C "$work" -xzf "$tree" || fail 2 "$tree is no package"
  tree=$(find "$work" -mindepth 1 -maxdepth 1 -type d)
fi
tree=$(cd "$tree" && pwd) || fail 2 "no folder $tree"
[ -n "$check" ] || [ -x "$tree/bin/process_test" ] || fail 2 "no bin/process_test in $tree"
# A package has the scripts and the sources of the examples; a build tree has not.
source=$tree examples=$tree/sources/examples pycuda_source=$tree/pycuda_source no_gpu=2
if [ -n "$check" ]; then
  source=$(dirname "$here") examples=$(dirname "$here")/examples pycuda_source=$tree/deps/pycuda-source no_gpu=77
fi
gpu=$("$source/scripts/has-gpu.sh" 2>/dev/null) || fail $no_gpu "this machine has no NVIDIA GPU"
export CULPRIT_TREE=$tree PYTHONDONTWRITEBYTECODE=1

# The examples and subjects need libcudart.so.13. They get a folder with that file only, because its own folder has
# other libraries too.
find_cudart() {
  local folder search=${LD_LIBRARY_PATH:-}
  for folder in ${search//:/ } /usr/local/cuda/lib64 /usr/local/cuda*/targets/*/lib; do
    ls "$folder/libcudart.so.13" 2>/dev/null
  done
  ldconfig -p | sed -nE 's/^\s*libcudart\.so\.13 .* => (.*)$/\1/p'
  python3 -c 'import glob, os, sys
for folder in sys.path: print(*glob.glob(os.path.join(folder, "nvidia/*/lib/libcudart.so.13")), sep="\n")' 2>/dev/null
}
cudart=$(find_cudart | grep -m 1 .)
mkdir -p "$work/cudart"
if [ -n "$cudart" ]; then ln -s "$cudart" "$work/cudart/libcudart.so.13"; fi
export LD_LIBRARY_PATH=$work/cudart${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

rows=$work/rows
: >"$rows"
row() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" | tee -a "$rows"; }

[ -n "$cudart" ] || row FAIL "libcudart.so.13" "not found: the programs with the shared runtime cannot start"

long_limit=${CULPRIT_GPU_LIMIT:-480} short_limit=300

# timed NAME LIMIT COMMAND...: runs it for LIMIT seconds at most, and keeps its exit code (124: it reached the limit)
# and its seconds.
timed() {
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  timeout --kill-after=10 "$limit" "$@" </dev/null
  echo $? >"$work/$name.status"
  echo $((SECONDS - begin)) >"$work/$name.seconds"
}
run_check() { timed "$1" "$short_limit" python3 "$source/tests/gpu/$1.py" >"$work/$1.rows" 2>"$work/$1.errors"; }
last_words() { tail -c "$1" "$2" | tr '\n\t' '  '; }
# A check prints its rows. Its exit code is 0 or 1; any other one is a failed row.
rows_of() {
  local status
  status=$(cat "$work/$1.status")
  if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    row FAIL "$1" "did not end in $short_limit s; after: $(tail -1 "$work/$1.rows" | cut -f 2)"
  fi
  tee -a "$rows" <"$work/$1.rows"
  # A script that ends by an exception has exit code 1, too.
  if [ ! -s "$work/$1.rows" ] || { [ "$status" -eq 1 ] && ! grep -q '^FAIL' "$work/$1.rows"; }; then
    row FAIL "$1" "exit code $status without a failed row: $(last_words 600 "$work/$1.errors")"
  fi
  [ "$status" -le 1 ] || row FAIL "$1" "exit code $status: $(last_words 300 "$work/$1.errors")"
}
# split_tests PROGRAM NAME PARTS FILTER: NAME.names has the names of the tests that FILTER selects, NAME.part.1 and so
# on a share of them each.
split_tests() {
  # Catch2 takes a comma for the end of a name. The exit code of --list-test-names-only is the number of tests.
  "$tree/bin/$1" --list-test-names-only "$4" | sed 's/,/\\,/g' >"$work/$2.names"
  split --number="r/$3" --numeric-suffixes=1 --suffix-length=1 "$work/$2.names" "$work/$2.part."
}
# run_part PROGRAM NAME NUMBER LIMIT
run_part() {
  timed "$2.part.$3" "$4" env CULPRIT_TEST_GPU=1 CULPRIT_TEST_PART="$work/$2.part.$3" \
    "$tree/bin/$1" --durations yes --input-file "$work/$2.part.$3" >"$work/$2.part.$3.log" 2>&1
  end_programs_of "CULPRIT_TEST_PART=$work/$2.part.$3"
}
# The test of a part that was running at the time limit. Catch2 ends it at SIGTERM, and prints its duration last;
# without that it is the first test, in their order, that has no duration.
unfinished_test() {
  sed -nE 's/^[0-9.]+ s: //p' "$work/$1.log" >"$work/$1.done"
  if grep -q 'Termination request signal' "$work/$1.log"; then
    tail -1 "$work/$1.done"
  else
    sed 's/\\,/,/g' "$work/$1" | grep -vxFf "$work/$1.done" | head -1
  fi
}
# row_of_part NAME NUMBER PARTS TITLE LIMIT. Runs of guest programs that fail alone, because of NVIDIA's driver, are
# left out.
row_of_part() {
  local log=$work/$1.part.$2.log status summary title="$4, part $2 of $3"
  [ "$3" -gt 1 ] || title=$4
  status=$(cat "$work/$1.part.$2.status")
  summary=$(grep -E '^(All tests passed|test cases:|assertions:)' "$log" | tr '\n' ' ')
  summary+="($(grep -c 'not run here:' "$log") not run here, $(grep -c 'left out:' "$log") runs left out)"
  sed -nE 's/^All tests passed .* in ([0-9]+) test cases?.*/\1/p; s/^test cases: +([0-9]+) .*/\1/p' "$log" |
    head -1 >"$work/$1.part.$2.count"
  if [ "$status" -eq 0 ]; then
    row PASS "$title" "$summary"
  elif [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    row FAIL "$title" "did not end in $5 s; running: $(unfinished_test "$1.part.$2")"
  else
    row FAIL "$title" "exit code $status: $summary"
  fi
  echo "$title: the slowest: $(sed -nE 's/^([0-9.]+ s: .*)/\1/p' "$log" | sort -rn | head -5 | paste -sd ';')"
  [ "$status" -eq 0 ] || grep -vE '^[0-9.]+ s: ' "$log" >&2
}
# do_parts PROGRAM NAME PARTS TITLE LIMIT: in the background, each with its row.
do_parts() {
  local part
  for ((part = 1; part <= $3; ++part)); do
    { run_part "$1" "$2" "$part" "$5"; row_of_part "$2" "$part" "$3" "$4" "$5"; } &
    running+=($!)
  done
}
# A row where a test was not run.
all_were_run() {
  local tests all
  tests=$(cat "$work/$1".part.*.count | awk '{ sum += $1 } END { print sum + 0 }')
  all=$(wc -l <"$work/$1.names")
  [ "$tests" -eq "$all" ] || row FAIL "$2" "$tests of $all were run"
}
# The Python examples need PyCUDA: the one of this machine, else one that is built from the source in the package.
run_examples() {
  local pycuda='' status=0 why
  if ! python3 -c 'import pycuda.driver' 2>/dev/null; then
    why=$(python3 "$source/tests/gpu/build_pycuda.py" "$pycuda_source" "$tree/simcuda/libcuda.so.1" "$work/pycuda" \
      2>"$work/pycuda.errors") || status=$?
    case $status in
      0) pycuda=$work/pycuda; row PASS "PyCUDA from source" "$why" ;;
      77) row SKIP "PyCUDA from source" "$why" ;;
      *) row FAIL "PyCUDA from source" "exit code $status: $(last_words 600 "$work/pycuda.errors")" ;;
    esac
  fi
  PYTHONPATH=$pycuda${PYTHONPATH:+${pycuda:+:}$PYTHONPATH} timed examples "$long_limit" \
    "$source/scripts/check-examples.py" \
    --programs "$tree/examples" --sources "$examples" \
    --culprit "$tree/bin/culprit" --library "$tree/lib/libculprit.so" >"$work/examples" 2>&1
}
# The reason of a failed run is on the indented lines below it.
rows_of_examples() {
  awk '/^(PASS|FAIL|SKIP)  / { if (name) print outcome "\t" name "\t" why
                               outcome = $1; name = "example " substr($0, 7); why = ""; next }
       /^      / { sub(/^ +/, ""); gsub(/\t/, " "); why = why (why ? " " : "") $0 }
       END { if (name) print outcome "\t" name "\t" why }' "$work/examples" | tee -a "$rows"
  tail -1 "$work/examples" | grep -qE '^[0-9]+ passed' || row FAIL "examples" "$(last_words 300 "$work/examples")"
}

if [ -n "$check" ]; then
  case $check in
    process) CULPRIT_TEST_GPU=1 "$tree/bin/process_test" </dev/null; exit ;;
    guests) CULPRIT_TEST_GPU=1 "$tree/bin/guest_test" </dev/null; exit ;;
    examples) run_examples && rows_of_examples ;;
    *) run_check "$check" && rows_of "$check" ;;
  esac
  if grep -q '^FAIL' "$rows"; then fail "$check: a row failed, see above"; fi
  grep -q '^PASS' "$rows" || fail 77 "$check: every row was skipped"
  exit 0
fi

# Checks without measurements run at the same time, those of the two test programs in parts: one after the other takes
# more than ten minutes.
run_tests() {
  running=()
  do_parts process_test process_test "$parts" "process tests" "$long_limit"
  do_parts guest_test guest_test "$parts" "guest programs" "$long_limit"
  wait "${running[@]}"
  all_were_run process_test "process tests"
  all_were_run guest_test "guest programs"
}
run_beside() {
  local beside=(python_frames python_view python_keepers python_raw python_tensors keeper_jobs torch_workflows
    torch_profiler torch_segments framework_counts watch_server)
  local also_beside=(attach causes marks graph_memory audit)
  running=()
  do_parts process_test attach_test 1 "process tests of attach" "$short_limit"
  { run_examples; rows_of_examples; } & running+=($!)
  if [ "$parts" -gt 1 ]; then
    run_checks "${beside[@]}" & running+=($!)
    run_checks "${also_beside[@]}" & running+=($!)
  fi
  wait "${running[@]}"
  if [ "$parts" -eq 1 ]; then run_checks "${beside[@]}" "${also_beside[@]}"; fi
  all_were_run attach_test "process tests of attach"
}
# These compare times, list the processes on the GPU, read the memory in use by all of them, or fill it: nothing else
# may run meanwhile.
alone=(attach_server doctor_ghost balance shared_balance graph_executables stray_contexts sharing gpu_users
  out_of_memory sanitizer_compare)
run_checks() { for check in "$@"; do run_check "$check"; rows_of "$check"; done; }
processors=$(nproc)
parts=$((processors < 4 ? 1 : processors < 16 ? 2 : 3))
split_tests process_test process_test "$parts" '~[attach]~[.]'
split_tests process_test attach_test 1 '[attach]'
split_tests guest_test guest_test "$parts" '~[.]'
wanted() { [ -z "$only" ] || [ "$only" = "$1" ]; }
if wanted tests; then run_tests; fi
if wanted checks; then run_beside; fi
if wanted alone; then run_checks "${alone[@]}"; fi

echo
echo "== $gpu"
(
  cd "$work" || exit
  for file in *.seconds; do echo "$(cat "$file") s ${file%.seconds}"; done | sort -rn | paste -sd, | sed 's/,/, /g'
)
awk -F '\t' '{ printf "%-4s  %-58s  %s\n", $1, $2, $3; count[$1]++ }
             END { printf "%d passed, %d failed, %d skipped\n", count["PASS"], count["FAIL"], count["SKIP"] }' "$rows"
if grep -q '^FAIL' "$rows"; then fail "$(grep -c '^FAIL' "$rows") rows failed, see above"; fi
