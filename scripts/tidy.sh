#!/usr/bin/env bash
# Runs clang-tidy 14 on sources of the library and the command: scripts/tidy.sh [--all | FILE...]
#
# --all checks every source of interpose/ and report/; FILE... those among the files. Without arguments the script
# checks the sources that differ from the branch main (on main itself: from the last commit but one) and the sources
# with uncommitted changes. Takes the compile commands of build/tidy, which it configures: those of build/ are for
# several files at a time. Prints the findings; exit code 1 when there are any. Where clang-tidy 14 or a build is
# missing, or more than 20 files changed, one line says so, and the exit code is 0.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
cd "$(dirname "$0")/.."
left_out() {
  say "left out: $*"
  exit 0
}
# Other versions have other checks, so that the tree would not pass them.
tidy=clang-tidy-14
if ! command -v "$tidy" >/dev/null; then
  tidy=clang-tidy
  "$tidy" --version 2>/dev/null | grep -q 'version 14\.' || left_out "clang-tidy 14 is not installed"
fi
[ -f build/CMakeCache.txt ] || left_out "no build/: scripts/build.sh makes it"

# The commit that the changes are counted from.
base() {
  local main fork
  for main in main origin/main; do
    fork=$(git merge-base HEAD "$main" 2>/dev/null) || continue
    if [ "$fork" != "$(git rev-parse HEAD)" ]; then echo "$fork"; return; fi
  done
  git rev-parse --quiet --verify HEAD~1 || git rev-parse HEAD
}
changed() {
  git diff --name-only --diff-filter=d "$(base)" &&
    git ls-files --others --exclude-standard
}
case "${1:-}" in
  --all) files() { git ls-files interpose report; } ;;
  '') files() { changed; } ;;
  *) names=("$@"); files() { printf '%s\n' "${names[@]}"; } ;;
esac
# The files that are compiled. CMake's compile commands name each by its absolute path.
compiled() { grep -oE '"file": "[^"]+"' build/tidy/compile_commands.json | sed -E 's/.*: "(.*)"/\1/' | sort -u; }
wanted() { files | sed -nE "s#^((interpose|report)/.*\.cpp)\$#$PWD/\1#p" | sort -u; }
lines_of wanted; all_wanted=("${lines[@]}")
[ ${#all_wanted[@]} -gt 0 ] || exit 0
mkdir -p build/tidy
cmake -S . -B build/tidy -G Ninja -DCULPRIT_UNITY=OFF </dev/null >build/tidy/configure.log 2>&1 ||
  fail "cmake cannot configure build/tidy, see build/tidy/configure.log"
lines_of compiled; all_compiled=("${lines[@]}")
lines_of comm -12 <(printf '%s\n' "${all_compiled[@]}") <(printf '%s\n' "${all_wanted[@]}"); sources=("${lines[@]}")
[ ${#sources[@]} -gt 0 ] || exit 0
# A file takes about 5 s, so that a change of many files would make scripts/check.sh take minutes.
most=20
if [ "${1:-}" = --all ]; then
  say "${#sources[@]} files, about 5 s for each"
elif [ ${#sources[@]} -gt $most ]; then
  left_out "${#sources[@]} changed files, more than $most: cmake --build build --target tidy checks all"
fi
# Each process prints its findings in one piece. clang-tidy counts warnings in system headers on stderr.
export tidy
one_file() {
  local output
  if ! output=$("$tidy" --quiet -p build/tidy "$1" 2>&1); then
    printf '%s\n' "$output" |
      grep -vE '^([0-9]+ (warnings?|errors?) .*generated|Suppressed|Use -header-filter|Error while processing)' >&2
    return 1
  fi
}
export -f one_file
# shellcheck disable=SC2016  # the inner shell takes the file's name
printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'one_file "$@"' _ ||
  fail "clang-tidy found something, see above"
