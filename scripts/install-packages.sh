#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that are missing: scripts/install-packages.sh PACKAGE...
#
# Needs the network and root only when a package is missing. On a system without dpkg it prints the list of packages.
set -euo pipefail
if ! command -v dpkg-query >/dev/null; then
  echo "install-packages.sh: not a Debian or Ubuntu system; please install: $*" >&2
  exit 0
fi
missing=()
for package in "$@"; do
  dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-packages.sh: please run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  sudo=(sudo)
fi
echo "install-packages.sh: installing ${missing[*]}" >&2
# Package lists may be old, or absent in a container. stdin belongs to the caller.
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update </dev/null >&2
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get -qq install -y --no-install-recommends "${missing[@]}" </dev/null >&2
