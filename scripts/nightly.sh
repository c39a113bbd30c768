#!/usr/bin/env bash
# Every night: builds, runs a list of commands under culprit, keeps what they leaked and writes the trend page.
#
#     scripts/nightly.sh --commands FILE --history DIR [--build COMMAND] [--culprit PATH] [--timeout SECONDS] [--title TEXT]
#
# FILE has a line for each command: NAME: COMMAND LINE. Empty lines and those that begin with # are skipped.
# DIR gets a JSON file a night (schema culprit.night/1) and index.html, the trend page, made of all that are there.
# COMMAND builds what is to be run; without --build nothing is built.
# Exit code: 0 nothing new; 1 leaks are new or have grown since the night before, or a command failed that did not fail
# then; 2 wrong usage; 3 something cannot be read, built or written.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || "$here/install-packages.sh" python3
exec python3 "$here/nightly.py" "$@"
