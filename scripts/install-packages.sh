#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that are missing: scripts/install-packages.sh PACKAGE...
#
# Does nothing, and needs neither network nor root, when all are there. On a system without dpkg it only says what is needed.
set -euo pipefail
if ! command -v dpkg-query >/dev/null; then
  echo "install-packages.sh: this is no Debian or Ubuntu; make sure that you have: $*" >&2
  exit 0
fi
missing=()
for package in "$@"; do
  dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install-packages.sh: as root: apt-get install ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "install-packages.sh: ${missing[*]}" >&2
# The package lists may be old or (in a container) absent; stdin belongs to the caller.
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update </dev/null >&2
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" </dev/null >&2
