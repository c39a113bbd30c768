#!/usr/bin/env bash
# For a nightly job: builds, runs commands under culprit, keeps their reports, and writes a trend page.
#
#     scripts/nightly.sh --commands FILE --history DIR [--build COMMAND] [--timeout SECONDS] [--keep NIGHTS] ...
#     scripts/nightly.sh accept --history DIR [--only NAME]... [--leak ID]...
#
# This is culprit-nightly of build/, which `cmake --install` puts beside culprit; --help describes files and exit codes.
set -euo pipefail
has_own_help=true
. "$(dirname "$0")/fail.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
command -v python3 >/dev/null || "$root/scripts/install-packages.sh" python3
if [ ! -x "$root/build/bin/culprit-nightly" ]; then
  fail 3 "there is no build/bin/culprit-nightly yet: run scripts/build.sh first"
fi
exec "$root/build/bin/culprit-nightly" "$@"
