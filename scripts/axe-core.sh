#!/usr/bin/env bash
# Gets axe-core, which finds barriers for people with disabilities in a page: scripts/axe-core.sh DEPS_FOLDER
#
# DEPS_FOLDER/axe-core/axe.min.js comes from a package on PyPI that carries it; the package itself is not used. The
# script does nothing when the file is there.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
here=$(cd "$(dirname "$0")" && pwd)
target=${1:?usage: scripts/axe-core.sh DEPS_FOLDER}/axe-core
package=axe-playwright-python==0.1.8
[ "$(cat "$target/complete" 2>/dev/null)" = "$package" ] && exit 0
python3 -m pip --version >/dev/null 2>&1 || "$here/install-packages.sh" python3-pip
rm -rf "$target" && mkdir -p "$target"
say "axe.min.js of $package"
download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
python3 -m pip install -q --disable-pip-version-check --no-deps --only-binary=:all: --target "$download" "$package" \
  </dev/null >&2
cp "$download/axe_playwright_python/axe.min.js" "$target"
echo "$package" >"$target/complete"
