#!/usr/bin/env bash
# Makes the picture of an HTML report in report/README.md anew: scripts/html-picture.sh
#
# Builds, runs tests/browser/picture_program.cpp under culprit on the simulated driver, and photographs the report with Chromium:
# examples/report.png.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
scripts/install-packages.sh chromium chromium-driver python3-selenium pngquant
scripts/build.sh >&2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
SIMCUDA_DEVICES=2 LD_LIBRARY_PATH=build/simcuda build/bin/culprit run --format html --output "$folder/report.html" -- build/bin/picture_program >&2
/usr/bin/python3 tests/browser/picture.py "$folder/report.html" "$folder/report.png"
# Few colours are enough, and the picture is in the repository.
pngquant --strip --force --output examples/report.png 96 -- "$folder/report.png"
bytes=$(stat -c %s examples/report.png)
[ "$bytes" -le $((200 << 10)) ] || { echo "html-picture.sh: examples/report.png has $bytes bytes, more than 200 KiB" >&2; exit 1; }
