#!/usr/bin/env bash
# The storms of tests/guest in their long form: scripts/soak.sh [--seconds N]
#
# Each lasts N seconds, ten minutes without the option: kills at 500 random points, fork storms, handlers at 20 kHz, jumps and cancellation
# out of calls, attach and detach 200 times, 100 million stacks. Prints one row for each; exit code 1 when one failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
scripts/build.sh >&2
exec python3 tests/guest/soak.py build "$@"
