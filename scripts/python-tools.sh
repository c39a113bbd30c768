#!/usr/bin/env bash
# Gets what the tests of the Python package need from PyPI: scripts/python-tools.sh DEPS_FOLDER
#
# DEPS_FOLDER/python-tools gets a folder for PYTHONPATH each:
# - pytest-6.2, pytest-9.2: the oldest and the newest pytest that the plugin is tested with, and plugins that run tests
#   again, in other processes, or in an event loop;
# - mypy, ipython;
# - servers: gunicorn, uvicorn, and a validator of Kubernetes' manifests, for examples/servers.
# The script does nothing when they are there.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
here=$(cd "$(dirname "$0")" && pwd)
deps=${1:?usage: scripts/python-tools.sh DEPS_FOLDER}
folders=(
  'pytest-6.2 pytest==6.2.5 pytest-rerunfailures==10.3 pytest-xdist==2.5.0 pytest-asyncio==0.16.0'
  'pytest-9.2 pytest==9.2.0 pytest-rerunfailures==16.7 pytest-xdist==3.8.0 pytest-asyncio==1.5.0'
  'mypy mypy==1.19.1'
  'ipython ipython==8.37.0'
  'servers gunicorn==27.0.1 uvicorn==0.54.0 kubernetes-validate==1.37.0'
)
target=$deps/python-tools
state="$(python3 --version) ${folders[*]}"
[ "$(cat "$target/complete" 2>/dev/null)" = "$state" ] && exit 0
python3 -m pip --version >/dev/null 2>&1 || "$here/install-packages.sh" python3-pip
rm -rf "$target" && mkdir -p "$target"
for folder in "${folders[@]}"; do
  read -r name packages <<<"$folder"
  say "$packages"
  # shellcheck disable=SC2086 # several packages
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install -q --disable-pip-version-check --only-binary=:all: \
    --target "$target/$name" $packages </dev/null >&2
done
echo "$state" >"$target/complete"
