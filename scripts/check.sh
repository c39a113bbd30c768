#!/usr/bin/env bash
# Checks the sources: scripts/check.sh [--only CHECK] [FILE...]
#
# FILE limits the checks to these files; without FILE every file of the repository is checked. CHECK is one of
#   format   C++ is formatted as clang-format 14 does
#   layers   includes follow scripts/layers.txt, without circles of units but those of scripts/unit_circles.txt
#   log      diagnostics of report/ go through report/base/log.h
#   files    length of files and lines, executable scripts, leftovers, names and lengths in documents
#   shell    shellcheck
#   python   ruff, with the rules of .ruff.toml
#   words    spelling, with codespell, and the phrases of scripts/phrases.txt
#   tidy     clang-tidy on changed C++ files, see scripts/tidy.sh
# Installs missing tools, except clang-tidy. Prints each problem. Exit code 1: there are problems; 2: wrong usage.
# shellcheck disable=SC2317  # problems_of calls functions
set -uo pipefail
. "$(dirname "$0")/fail.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || fail "no folder $root"
checks=(format layers log files shell python words tidy)
chosen=("${checks[@]}")
if [ "${1:-}" = --only ]; then
  [[ " ${checks[*]} " == *" ${2:-} "* ]] || wrong_usage "no check ${2:-is named}"
  chosen=("$2")
  shift 2
fi
[[ "${1:-}" != -* ]] || wrong_usage "no option $1"
files=("$@")
if [ $# -eq 0 ]; then lines_of git ls-files --cached --others --exclude-standard; files=("${lines[@]}"); fi

problems=0
problem() {
  say "$@"
  problems=$((problems + 1))
}
# problems_of WORDS COMMAND...: each line that COMMAND prints is a problem, after WORDS. A COMMAND that fails without a
# line is one, too: it did not check.
problems_of() {
  local words=$1 text line status=0
  shift
  text=$("$@") || status=$?
  if [ -n "$text" ]; then
    while IFS= read -r line; do problem "$words$line"; done <<<"$text"
  elif [ "$status" -ne 0 ]; then
    problem "${words}nothing is known: $1 failed with exit code $status"
  fi
}
# grep, for which it is no failure that no line matches.
found() { grep "$@" || [ $? -eq 1 ]; }
# The chosen files whose names match; not those that were deleted and are still in the index.
matching() {
  local file
  for file in "${files[@]}"; do
    if [[ $file =~ $1 && -f $file ]]; then echo "$file"; fi
  done
}
lines_of matching '\.(c|cpp|h)$'; cxx=("${lines[@]}")
lines_of matching '\.sh$|^\.ci/run$'; shell=("${lines[@]}")
lines_of matching '\.py$'; python=("${lines[@]}")
lines_of matching '\.js$'; javascript=("${lines[@]}")

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
  unformatted() {
    "$format" --dry-run "${cxx[@]}" 2>&1 |
      sed -nE 's/^([^:]+):[0-9]+:[0-9]+: warning: code should be clang-formatted.*/\1/p' | uniq
  }
  problems_of "not formatted ($format -i): " unformatted
}

check_layers() {
  inside_the_library() { found -rnE '#include "interpose/' report | found -vE '"interpose/format/'; }
  problems_of "report/ may include only interpose/format/ of interpose/: " inside_the_library
  problems_of "interpose/ may not include report/: " found -rnE '#include "report/' interpose
  # The same tables give the same verdict and the same findings.
  reading() {
    found -rnE '#include (<fstream>|"report/base/(input_file|json_input|output_file)\.h")' \
      report/{model,causes,judge,findings}
  }
  problems_of "load/ reads files, these folders do not: " reading
  problems_of "" scripts/check-layers.py
  problems_of "" scripts/check-headers.py
  problems_of "" scripts/check-tables.py
  # CLI11 is a large header: one file pays for it, and the rest of report/ declares its options in words of its own.
  cli11() { found -rnE '#\s*include [<"]CLI/' report tests | found -v '^report/commands/option_list\.cpp:'; }
  problems_of "only report/commands/option_list.cpp may include CLI11: " cli11
}

# log.cpp has spdlog, the levels and the colours; a message beside it would have none of them, and no --quiet.
check_log() {
  spdlog() { found -rnE '#\s*include [<"](spdlog|fmt)/' report tests | found -v '^report/base/log\.cpp:'; }
  problems_of "only report/base/log.cpp may include spdlog: " spdlog
  # main.cpp makes the stream printable, and `culprit run` writes its report to it.
  stderr_beside_the_log() {
    found -rnE 'std::(cerr|clog)\b|\bf(printf|puts|putc|write)\(.*\bstderr\b|\bperror\(|\bwrite\((2|STDERR_FILENO)\b' \
      --include='*.cpp' --include='*.h' report |
      found -vE '^report/base/log\.cpp:' |
      found -vE '^report/main\.cpp:[0-9]+:.*PrintableStream' |
      found -vE '^report/commands/output_options\.cpp:[0-9]+:.*std::ostream& out = '
  }
  problems_of "diagnostics go through report/base/log.h: " stderr_beside_the_log
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
  long_lines() {
    LC_ALL=C.UTF-8 found -nE '^.{121,}' /dev/null "${shell[@]}" "${python[@]}" "${javascript[@]}" | cut -c 1-100
  }
  problems_of "more than 120 columns: " long_lines
  leftovers() {
    found -nE '\b(TODO|FIXME|XXX)\b|^(<<<<<<<|>>>>>>>) ' /dev/null "${cxx[@]}" "${python[@]}" "${shell[@]}" \
      "${javascript[@]}" | found -v '^scripts/check.sh:'
  }
  problems_of "leftover: " leftovers
  problems_of "" scripts/check-readmes.py
}

check_shell() {
  [ ${#shell[@]} -gt 0 ] || return
  if command -v shellcheck >/dev/null || scripts/install-packages.sh shellcheck; then
    problems_of "" shellcheck --external-sources --format gcc "${shell[@]}"
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
  problems_of "" "$ruff" check --quiet --no-cache --output-format concise "${python[@]}"
}

check_words() {
  texts() {
    matching '\.(c|cpp|h|def|S|sh|py|js|css|html|md|txt|cmake|in|toml|yml|yaml|json)$|^\.ci/run$' |
      found -vE '^tests/golden/'
  }
  lines_of texts; texts=("${lines[@]}")
  [ ${#texts[@]} -gt 0 ] || return
  if ! command -v codespell >/dev/null && ! scripts/install-packages.sh codespell; then
    problem "codespell is needed"
    return
  fi
  problems_of "" codespell --ignore-words scripts/words.txt "${texts[@]}"
  phrases() {
    found -nE -f <(grep -vE '^(#|$)' scripts/phrases.txt) /dev/null "${texts[@]}" |
      found -vE '^(scripts/phrases\.txt|\.github/CONTRIBUTING\.md):' | cut -c 1-150
  }
  problems_of "see scripts/phrases.txt: " phrases
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
  fail "$problems problems"
fi
echo "check.sh: ${chosen[*]}: ${#cxx[@]} C++ files, ${#shell[@]} shell scripts, ${#python[@]} Python and" \
  "${#javascript[@]} JavaScript files are fine"
