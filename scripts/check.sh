#!/usr/bin/env bash
# Checks of the sources besides the tests: scripts/check.sh. Prints the problems; exit code 1 when there are any.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
problems=0
problem() {
  echo "check.sh: $*" >&2
  problems=$((problems + 1))
}
mapfile -t tracked < <(git ls-files --cached --others --exclude-standard)
matching() { printf '%s\n' "${tracked[@]}" | grep -E "$1" | while IFS= read -r file; do [ -f "$file" ] && echo "$file"; done; }
mapfile -t cxx < <(matching '\.(c|cpp|h)$')
mapfile -t shell < <(matching '\.sh$|^\.ci/run$')
mapfile -t python < <(matching '\.py$')

# One clang-format: another version formats differently.
format=clang-format-14
if ! command -v "$format" >/dev/null; then
  if command -v clang-format >/dev/null && clang-format --version | grep -q 'version 14\.'; then
    format=clang-format
  else
    scripts/install-packages.sh clang-format-14 || problem "clang-format 14 is needed"
  fi
fi
while IFS= read -r file; do problem "$file: not formatted ($format -i $file)"; done < <(
  "$format" --dry-run "${cxx[@]}" 2>&1 | sed -nE 's/^([^:]+):[0-9]+:[0-9]+: warning: code should be clang-formatted.*/\1/p' | uniq)

# The two programs share the layout of the dump, the request of an attach, and the names of signals; nothing else.
while IFS= read -r line; do problem "report/ may include only interpose/format/ and interpose/base/signal_names.h of interpose/: $line"; done < <(
  grep -rnE '#include "interpose/' report | grep -vE '"interpose/(format/|base/signal_names\.h")')
while IFS= read -r line; do problem "interpose/ may not include report/: $line"; done < <(grep -rnE '#include "report/' interpose)
while IFS= read -r line; do problem "$line"; done < <(scripts/check-layers.py)
while IFS= read -r line; do problem "$line"; done < <(scripts/check-headers.py)

# Long files are hard to read. Tables (.def, .txt) and golden files are exempt.
for file in "${cxx[@]}" "${shell[@]}" "${python[@]}"; do
  lines=$(wc -l <"$file")
  [ "$lines" -le 800 ] || problem "$file: $lines lines, split it (800 at most)"
done

for file in "${shell[@]}"; do
  bash -n "$file" || problem "$file: bash cannot parse it"
  [ -x "$file" ] || problem "$file: not executable"
done
for file in "${python[@]}"; do
  python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$file" || problem "$file: Python cannot parse it"
done
while IFS= read -r line; do problem "leftover: $line"; done < <(
  grep -nE '\b(TODO|FIXME|XXX)\b|^(<<<<<<<|>>>>>>>) ' "${cxx[@]}" "${python[@]}" "${shell[@]}" | grep -v '^scripts/check.sh:')

if [ "$problems" -gt 0 ]; then
  echo "check.sh: $problems problems" >&2
  exit 1
fi
echo "check.sh: ${#cxx[@]} C++ files, ${#shell[@]} shell scripts, ${#python[@]} Python scripts are fine"
