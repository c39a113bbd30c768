#!/usr/bin/env bash
# Checks the sources: scripts/check.sh [--only CHECK] [FILE...]
#
# FILE limits the checks to these files; without FILE every file of the repository is checked. CHECK is one of
#   format   C++ is formatted as clang-format 14 does
#   layers   includes follow scripts/layers.txt
#   log      diagnostics of report/ go through report/base/log.h
#   files    length of files and lines, executable scripts, leftovers, names and lengths in documents
#   shell    shellcheck
#   python   ruff, with the rules of .ruff.toml
#   words    spelling, with codespell, and the phrases of scripts/phrases.txt
#   tidy     clang-tidy on changed C++ files, see scripts/tidy.sh
# Installs missing tools, except clang-tidy. Prints each problem. Exit code 1: there are problems; 2: wrong usage.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}
checks=(format layers log files shell python words tidy)
chosen=("${checks[@]}")
if [ "${1:-}" = --only ]; then
  [[ " ${checks[*]} " == *" ${2:-} "* ]] || usage
  chosen=("$2")
  shift 2
fi
[[ "${1:-}" != -* ]] || usage
files=("$@")
[ $# -gt 0 ] || mapfile -t files < <(git ls-files --cached --others --exclude-standard)

problems=0
problem() {
  echo "check.sh: $*" >&2
  problems=$((problems + 1))
}
# Reads lines: each one is a problem, after the words that are given.
each_is_a_problem() { while IFS= read -r line; do problem "$*$line"; done; }
# The chosen files whose names match; not those that were deleted and are still in the index.
matching() {
  local file
  for file in "${files[@]}"; do
    if [[ $file =~ $1 && -f $file ]]; then echo "$file"; fi
  done
}
mapfile -t cxx < <(matching '\.(c|cpp|h)$')
mapfile -t shell < <(matching '\.sh$|^\.ci/run$')
mapfile -t python < <(matching '\.py$')
mapfile -t javascript < <(matching '\.js$')

check_format() {
  [ ${#cxx[@]} -gt 0 ] || return
  # Another version of clang-format formats differently.
  local format=clang-format-14
  if ! command -v "$format" >/dev/null; then
    if command -v clang-format >/dev/null && clang-format --version | grep -q 'version 14\.'; then
      format=clang-format
    else
      scripts/install-packages.sh clang-format-14 || problem "clang-format 14 is needed"
    fi
  fi
  each_is_a_problem "not formatted ($format -i): " < <("$format" --dry-run "${cxx[@]}" 2>&1 |
    sed -nE 's/^([^:]+):[0-9]+:[0-9]+: warning: code should be clang-formatted.*/\1/p' | uniq)
}

check_layers() {
  each_is_a_problem "report/ may include only interpose/format/ of interpose/: " < <(
    grep -rnE '#include "interpose/' report | grep -vE '"interpose/format/')
  each_is_a_problem "interpose/ may not include report/: " < <(grep -rnE '#include "report/' interpose)
  each_is_a_problem < <(scripts/check-layers.py)
  each_is_a_problem < <(scripts/check-headers.py)
  each_is_a_problem < <(scripts/check-tables.py)
  # CLI11 is a large header: one file pays for it, and the rest of report/ declares its options in words of its own.
  each_is_a_problem "only report/commands/option_list.cpp may include CLI11: " < <(
    grep -rnE '#\s*include [<"]CLI/' report tests | grep -v '^report/commands/option_list\.cpp:')
}

# log.cpp has spdlog, the levels and the colours; a message beside it would have none of them, and no --quiet.
check_log() {
  each_is_a_problem "only report/base/log.cpp may include spdlog: " < <(
    grep -rnE '#\s*include [<"](spdlog|fmt)/' report tests | grep -v '^report/base/log\.cpp:')
  # main.cpp makes the stream printable, and `culprit run` writes its report to it.
  each_is_a_problem "diagnostics go through report/base/log.h: " < <(
    grep -rnE 'std::(cerr|clog)\b|\bf(printf|puts|putc|write)\(.*\bstderr\b|\bperror\(|\bwrite\((2|STDERR_FILENO)\b' \
      --include='*.cpp' --include='*.h' report |
      grep -vE '^report/base/log\.cpp:' |
      grep -vE '^report/main\.cpp:[0-9]+:.*PrintableStream' |
      grep -vE '^report/commands/output_options\.cpp:[0-9]+:.*std::ostream& out = ')
}

check_files() {
  local file lines
  # Tables (.def, .txt) and golden files may be long.
  for file in "${cxx[@]}" "${shell[@]}" "${python[@]}" "${javascript[@]}"; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || problem "$file: $lines lines, split it (800 at most)"
  done
  for file in "${shell[@]}"; do
    [ -x "$file" ] || problem "$file: not executable"
  done
  # clang-format cuts the lines of C++, except in tables. /dev/null stands for no file.
  each_is_a_problem "more than 120 columns: " < <(
    LC_ALL=C.UTF-8 grep -nE '^.{121,}' /dev/null "${shell[@]}" "${python[@]}" "${javascript[@]}" | cut -c 1-100)
  each_is_a_problem "leftover: " < <(
    grep -nE '\b(TODO|FIXME|XXX)\b|^(<<<<<<<|>>>>>>>) ' /dev/null "${cxx[@]}" "${python[@]}" "${shell[@]}" \
      "${javascript[@]}" | grep -v '^scripts/check.sh:')
  each_is_a_problem < <(scripts/check-readmes.py)
}

check_shell() {
  [ ${#shell[@]} -gt 0 ] || return
  if command -v shellcheck >/dev/null || scripts/install-packages.sh shellcheck; then
    each_is_a_problem < <(shellcheck --external-sources --format gcc "${shell[@]}")
  else
    problem "shellcheck is needed"
  fi
}

check_python() {
  [ ${#python[@]} -gt 0 ] || return
  # Debian has no package of ruff. A fixed version has fixed rules.
  local version=0.17.6 folder=build/deps/ruff
  local ruff=$folder/bin/ruff
  if [ "$("$ruff" --version 2>/dev/null)" != "ruff $version" ]; then
    if [ "$(ruff --version 2>/dev/null)" = "ruff $version" ]; then
      ruff=ruff
    else
      python3 -m pip --version >/dev/null 2>&1 || scripts/install-packages.sh python3-pip
      rm -rf "$folder"
      PIP_ROOT_USER_ACTION=ignore python3 -m pip install -q --disable-pip-version-check --no-deps \
        --only-binary=:all: --target "$folder" "ruff==$version" </dev/null >&2 ||
        { problem "ruff $version is needed (PyPI)"; return; }
    fi
  fi
  each_is_a_problem < <("$ruff" check --quiet --no-cache --output-format concise "${python[@]}")
}

check_words() {
  mapfile -t texts < <(matching '\.(c|cpp|h|def|S|sh|py|js|css|html|md|txt|cmake|in|toml|yml|yaml|json)$|^\.ci/run$' |
    grep -vE '^tests/golden/')
  [ ${#texts[@]} -gt 0 ] || return
  if ! command -v codespell >/dev/null && ! scripts/install-packages.sh codespell; then
    problem "codespell is needed"
    return
  fi
  each_is_a_problem < <(codespell --ignore-words scripts/words.txt "${texts[@]}")
  each_is_a_problem "see scripts/phrases.txt: " < <(
    grep -nE -f <(grep -vE '^(#|$)' scripts/phrases.txt) /dev/null "${texts[@]}" |
      grep -vE '^(scripts/phrases\.txt|\.github/CONTRIBUTING\.md):' | cut -c 1-150)
}

check_tidy() {
  local output
  if output=$(scripts/tidy.sh "$@" 2>&1); then
    [ -z "$output" ] || echo "$output" >&2
  else
    problem "clang-tidy:
$output"
  fi
}

for check in "${chosen[@]}"; do "check_$check" "$@"; done
if [ "$problems" -gt 0 ]; then
  echo "check.sh: $problems problems" >&2
  exit 1
fi
echo "check.sh: ${chosen[*]}: ${#cxx[@]} C++ files, ${#shell[@]} shell scripts, ${#python[@]} Python and" \
  "${#javascript[@]} JavaScript files are fine"
