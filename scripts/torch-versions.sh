#!/bin/bash
# The keepers of tensors in each version of PyTorch from 2.1 on, without a GPU: installs each from PyPI in a virtual
# environment, one after the other, and prints a row for it (tests/python/torch_versions.py).
#
#     scripts/torch-versions.sh [--keep] [VERSION:PYTHON ...]
#
# VERSION:PYTHON   for example 2.7.1:3.12 (default: the list below; pythonX.Y of the PATH, or pyenv's)
# --keep           keep the environments in build/deps/torch-VERSION (2 to 6 GB each)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
. scripts/fail.sh

pairs=(2.1.2:3.9 2.2.2:3.10 2.3.1:3.10 2.4.1:3.11 2.5.1:3.11 2.6.0:3.12 2.7.1:3.12 2.8.0:3.12 2.9.1:3.13 2.10.0:3.13
  2.11.0:3.12 2.12.1:3.13 2.13.0:3.13 2.14.1:3.13 2.15.0:3.13)
keep=
chosen=()
for word in "$@"; do
  case $word in
    --keep) keep=1 ;;
    --help | -h) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *:*) chosen+=("$word") ;;
    *) fail 2 "$word is no VERSION:PYTHON: scripts/torch-versions.sh --help" ;;
  esac
done
[ ${#chosen[@]} -eq 0 ] || pairs=("${chosen[@]}")
[ -x build/bin/culprit ] || fail 2 "build/bin/culprit is missing: scripts/build.sh makes it"

# pyenv has a command for each version that it could run, which fails for the others.
python_of() {
  local python of_pyenv=("${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python3)
  for python in "$(command -v "python$1")" "${of_pyenv[-1]}"; do
    [ -x "$python" ] && "$python" -c '' 2>/dev/null && echo "$python" && return
  done
}

failed=0
for pair in "${pairs[@]}"; do
  version=${pair%%:*} python=$(python_of "${pair##*:}")
  if [ -z "$python" ]; then
    echo "SKIP  PyTorch $version: no Python ${pair##*:} here"
    continue
  fi
  place=build/deps/torch-$version
  if [ ! -x "$place/bin/python" ] || ! "$place/bin/python" -c 'import torch' 2>/dev/null; then
    rm -rf "$place"
    if ! { "$python" -m venv "$place" && "$place/bin/pip" install -q --no-cache-dir "torch==$version" 'numpy<2.3'; } \
      >"build/torch-$version.log" 2>&1; then
      echo "FAIL  PyTorch $version was not installed: build/torch-$version.log"
      failed=1
      rm -rf "$place"
      continue
    fi
  fi
  python3 tests/python/torch_versions.py build . "$place/bin/python" || failed=1
  [ -n "$keep" ] || rm -rf "$place"
done
exit $failed
