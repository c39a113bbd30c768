#!/usr/bin/env bash
# Makes the root folder of a Debian release, with Python and pytest: scripts/debian-root.sh SUITE DEPS_FOLDER
#
# tests/package/roots_test.py runs the packages in DEPS_FOLDER/roots/SUITE. Needs root, debootstrap and the network.
# Exit code 77, and the reason: the folder cannot be made here.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
suite=${1:?usage: scripts/debian-root.sh SUITE DEPS_FOLDER} deps=${2:?usage: scripts/debian-root.sh SUITE DEPS_FOLDER}
root=$deps/roots/$suite
[ -f "$root/complete" ] && exit 0
cannot() { fail 77 "$1"; }
[ "$(id -u)" -eq 0 ] || cannot "only root can make a root folder"
unshare --mount true 2>/dev/null || cannot "no permission to mount (unshare --mount)"
"$(dirname "$0")/install-packages.sh" debootstrap >&2 || true
command -v debootstrap >/dev/null || cannot "no debootstrap"
rm -rf "$root" && mkdir -p "$deps/roots"
packages=python3,python3-pip,python3-venv,python3-pytest
for mirror in http://deb.debian.org/debian http://archive.debian.org/debian; do
  if debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$mirror" >"$root.log" 2>&1; then
    touch "$root/complete"
    exit 0
  fi
  rm -rf "$root"
done
cannot "debootstrap failed: $(tail -1 "$root.log")"
