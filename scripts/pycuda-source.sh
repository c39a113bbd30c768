#!/usr/bin/env bash
# Gets the source of PyCUDA from PyPI: scripts/pycuda-source.sh DEPS_FOLDER
#
# For the tests on a GPU (scripts/package.sh --with-tests): PyPI has no wheels of PyCUDA, and the machine with the GPU
# may have no network. tests/gpu/build_pycuda.py builds PyCUDA there.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
here=$(cd "$(dirname "$0")" && pwd)
deps=${1:?usage: scripts/pycuda-source.sh DEPS_FOLDER}
version=2026.1
target=$deps/pycuda-source
[ -f "$target/pycuda-$version.tar.gz" ] && exit 0
python3 -m pip --version >/dev/null 2>&1 || "$here/install-packages.sh" python3-pip
rm -rf "$target" && mkdir -p "$target"
python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary pycuda -d "$target" "pycuda==$version" \
  </dev/null
