#!/usr/bin/env bash
# Tells whether this machine has an NVIDIA GPU that a program can use: exit code 0 and its name on stdout, or 1.
#
# Containers often lack nvidia-smi. The device files and the driver's library then stand for a GPU.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
if command -v nvidia-smi >/dev/null &&
  name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sed -n 1p) && [ -n "$name" ]; then
  echo "$name"
  exit 0
fi
compgen -G '/dev/nvidia[0-9]*' >/dev/null || fail "no device /dev/nvidia0 and the like"
libraries=$(ldconfig -p 2>/dev/null) || true
[[ $libraries == *libcuda.so.1* ]] || fail "no libcuda.so.1 among the libraries that ldconfig -p names"
echo "NVIDIA GPU"
