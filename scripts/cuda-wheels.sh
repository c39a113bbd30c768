#!/usr/bin/env bash
# Unpacks NVIDIA's wheels from PyPI into a new folder: scripts/cuda-wheels.sh FOLDER WHEEL...
set -euo pipefail
. "$(dirname "$0")/fail.sh"
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: scripts/cuda-wheels.sh FOLDER WHEEL...}
shift
python3 -m pip --version >/dev/null 2>&1 || "$here/install-packages.sh" python3-pip
work=$folder-wheels
rm -rf "$work" "$folder" && mkdir -p "$work/unpacked"
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$work" "$@" </dev/null
for wheel in "$work"/*.whl; do python3 -m zipfile -e "$wheel" "$work/unpacked"; done
mv "$work/unpacked/nvidia/cu13" "$folder"
rm -rf "$work"
