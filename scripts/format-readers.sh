#!/usr/bin/env bash
# Gets what reads the formats of others in the tests: scripts/format-readers.sh DEPS_FOLDER
#
# sarif-pydantic (the SARIF 2.1.0 object model, typed) and junitparser, from PyPI, into DEPS_FOLDER/format-readers. Does nothing when
# they are there. Python finds them through the test only; nothing is installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
deps=${1:?usage: scripts/format-readers.sh DEPS_FOLDER}
packages=('sarif-pydantic==0.6.2' 'junitparser==3.2.0')
target=$deps/format-readers
[ "$(cat "$target/complete" 2>/dev/null)" = "$(python3 --version) ${packages[*]}" ] && exit 0
python3 -m pip --version >/dev/null 2>&1 || "$here/install-packages.sh" python3-pip
rm -rf "$target" && mkdir -p "$target"
echo "format-readers.sh: ${packages[*]}" >&2
python3 -m pip install -q --disable-pip-version-check --only-binary=:all: --target "$target" "${packages[@]}" </dev/null >&2
echo "$(python3 --version) ${packages[*]}" >"$target/complete"
