#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that are missing: scripts/install-packages.sh PACKAGE...
#
# Needs the network and root only when a package is missing. Another apt or dpkg that is running is waited for, ten
# minutes at most. On a system without apt the script prints the names of the packages for dnf and conda (packages.txt).
set -euo pipefail
. "$(dirname "$0")/fail.sh"
names_for() {
  awk -v column="$1" -v wanted=" ${*:2} " '
    /^#/ { next }
    index(wanted, " " $1 " ") {
      known[$1] = 1
      if ($column != "-" && !($column in said)) { said[$column] = 1; printf " %s", $column }
    }
    END { n = split(wanted, word, " "); for (i = 1; i <= n; i++) if (!(word[i] in known)) printf " %s", word[i] }
  ' "$(dirname "$0")/packages.txt"
}
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  {
    echo "install-packages.sh: no apt here; the names of the needed packages are"
    echo "  dnf install$(names_for 2 "$@")"
    echo "  conda install -c conda-forge$(names_for 3 "$@")"
    if [[ " $* " == *" node-d3 "* ]]; then
      echo "  and D3 (d3.min.js and its licence): -DCULPRIT_D3=FILE -DCULPRIT_D3_LICENCE=FILE"
    fi
  } >&2
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
    fail "please run as root: apt-get install ${missing[*]}"
  fi
  sudo=(sudo)
fi

# apt waits for dpkg's lock by itself (Lock::Timeout). It has other locks, for lists and archives, and waits for none of
# these.
seconds=600
apt_get() {
  local status output deadline=$((SECONDS + seconds)) said=false
  output=$(mktemp)
  while true; do
    status=0
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o "DPkg::Lock::Timeout=$seconds" "$@" \
      </dev/null >"$output" 2>&1 || status=$?
    if [ "$status" -eq 0 ] || ! grep -qE 'Could not get lock|Unable to (acquire|lock)' "$output" ||
      [ "$SECONDS" -ge "$deadline" ]; then
      break
    fi
    $said || say "waiting for another apt"
    said=true
    sleep "${CULPRIT_APT_PAUSE:-3}"
  done
  cat "$output" >&2
  rm -f "$output"
  return "$status"
}
say "installing ${missing[*]}"
# Package lists may be old, or absent in a container. A mirror that does not answer is fatal only if the installation
# fails.
apt_get update || true
apt_get install -y --no-install-recommends "${missing[@]}"
