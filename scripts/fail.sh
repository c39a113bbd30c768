# shellcheck shell=bash
# Each script sources this file first: a script of ours that fails says why in its last line.
#
# A script gives its reason by `fail`. A command that ends a script without one (set -e), also in $(...) or in a pipe,
# is named with its line. A script that another one calls has given its reason. tests/package/last_line_test.py

case $0 in /*) this_script=$0 ;; *) this_script=$PWD/$0 ;; esac

say() { echo "${0##*/}: $*" >&2; }

# fail [CODE] WORDS...: the end of a script, with the exit code CODE, or 1.
fail() {
  local code=1
  if [[ $1 =~ ^[0-9]+$ ]]; then
    code=$1
    shift
  fi
  say "$@"
  exit "$code"
}

# The comment at the head of the script.
usage() { sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$this_script"; }

# wrong_usage [WORDS...]: the usage, then the reason, and exit code 2.
wrong_usage() {
  usage >&2
  fail 2 "${*:-wrong usage, see above}"
}

# lines_of COMMAND...: the lines that COMMAND prints, in the array `lines`. `mapfile < <(COMMAND)` would go on when
# COMMAND failed.
lines_of() {
  local text
  text=$("$@") || fail "$1 failed with exit code $?"
  # shellcheck disable=SC2034  # for the caller
  if [ -n "$text" ]; then mapfile -t lines <<<"$text"; else lines=(); fi
}

# Of a pipe that failed bash names the last command, so that the line of the script is shown.
name_failed_command() {
  local status=$1 line=$2 file=$3 command=$4 of_file=() text=
  # Without -e the script goes on. A subshell's failure is seen in the script itself, if it ends the script.
  [[ $- == *e* && $BASH_SUBSHELL -eq 0 ]] || return 0
  # Only a signal keeps a script of ours from giving its reason.
  if [[ $status -lt 126 && $command =~ [a-z]\.(sh|py)([^a-z]|$) ]]; then return 0; fi
  mapfile -t -s $((line - 1)) -n 1 of_file <"$file" || true
  read -r text <<<"${of_file[0]:-$command}"
  say "line $line failed with exit code $status: ${text:0:160}"
}
set -E
trap 'name_failed_command "$?" "$LINENO" "${BASH_SOURCE[0]}" "$BASH_COMMAND"' ERR

# A script that hands its options to a program sets `has_own_help` before it sources this file.
if [[ ${1:-} == --help && -z ${has_own_help:-} ]]; then
  usage
  exit 0
fi
