#!/usr/bin/env bash
# Gets PyCUDA for the tests, from Debian's section contrib: scripts/pycuda.sh DEPS_FOLDER
#
# The package is unpacked into DEPS_FOLDER/pycuda and not installed, because it depends on the whole CUDA toolkit; the
# tests have the simulated driver instead. The system's list of package sources does not change. On systems other than
# Debian the tests with PyCUDA are left out.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
here=$(cd "$(dirname "$0")" && pwd)
deps=${1:?usage: scripts/pycuda.sh DEPS_FOLDER}
deps=$(realpath -m "$deps")
folder=$deps/pycuda
[ -d "$folder/usr/lib/python3/dist-packages/pycuda" ] && exit 0
# shellcheck source=/dev/null
. /etc/os-release
if [ "${ID:-}" != debian ] || ! command -v apt-get >/dev/null; then
  say "PyCUDA comes from Debian's packages; on other systems its tests are left out"
  exit 0
fi
keys=/usr/share/keyrings/debian-archive-keyring.gpg
rm -rf "$folder" && mkdir -p "$folder"/apt/{lists,archives}/partial
echo "deb [signed-by=$keys] http://deb.debian.org/debian $VERSION_CODENAME contrib" >"$folder/apt/sources.list"
: >"$folder/apt/status"
apt=(apt-get -qq -o "Dir::Etc::SourceList=$folder/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
  -o "Dir::State::Lists=$folder/apt/lists" -o "Dir::State::Status=$folder/apt/status" -o "Dir::Cache=$folder/apt"
  -o Acquire::Languages=none -o "APT::Sandbox::User=$(id -un)")
"${apt[@]}" update </dev/null >&2
(cd "$folder" && "${apt[@]}" download python3-pycuda </dev/null >&2)
dpkg-deb -x "$folder"/python3-pycuda_*.deb "$folder/unpacked"
# The dependencies, without the toolkit, the driver, and packages that every Python has. python3-numpy-abi9 and the like
# are names of ABIs.
dependencies() {
  dpkg-deb -f "$folder"/python3-pycuda_*.deb Depends | tr ',' '\n' | sed -E 's/^ *//; s/[ :|].*//' |
    grep -vE '^(nvidia-|libcu|python3$|lib(c6|gcc|stdc\+\+))|-(abi|py)[0-9]+$' | sort -u
}
lines_of dependencies; needed=("${lines[@]}")
"$here/install-packages.sh" "${needed[@]}"
mv "$folder/unpacked/usr" "$folder/usr"  # last, because the next run looks for it
rm -rf "$folder/apt" "$folder/unpacked"
