#!/usr/bin/env bash
# For a nightly job: builds, runs commands under culprit, stores their leaks, and writes a trend page.
#
#     scripts/nightly.sh --commands FILE --history DIR [--build COMMAND] [--culprit PATH] [--timeout SECONDS]
#                        [--title TEXT]
#
# FILE has a line "NAME: COMMAND LINE" for each command. Empty lines and lines that begin with # are skipped.
# DIR gets a JSON file for each night (schema culprit.night/1), and the trend page index.html of all nights.
# COMMAND builds the programs; without --build nothing is built.
# Exit code: 0 no worse than the night before; 1 leaks are new or have grown, or a command failed that did not fail the
# night before; 2 wrong usage; 3 a file cannot be read or written, or the build failed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || "$here/install-packages.sh" python3
exec python3 "$here/nightly.py" "$@"
