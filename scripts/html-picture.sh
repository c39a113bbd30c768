#!/usr/bin/env bash
# Makes examples/report.png, the picture of an HTML report that README.md links to: scripts/html-picture.sh
#
# Builds, runs tests/browser/picture_program.cpp under culprit on the simulated driver, and takes a screenshot of the
# report with Chromium.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
scripts/install-packages.sh chromium chromium-driver python3-selenium pngquant
scripts/build.sh >&2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
SIMCUDA_DEVICES=2 LD_LIBRARY_PATH=build/simcuda build/bin/culprit run --format html --output "$folder/report.html" \
  -- build/bin/picture_program >&2
/usr/bin/python3 tests/browser/picture.py "$folder/report.html" "$folder/report.png"
# 96 colours suffice, and make the file small enough for the repository.
pngquant --strip --force --output examples/report.png 96 -- "$folder/report.png"
bytes=$(stat -c %s examples/report.png)
if [ "$bytes" -gt $((200 << 10)) ]; then
  fail "examples/report.png has $bytes bytes, more than 200 KiB"
fi
