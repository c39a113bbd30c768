#!/usr/bin/env bash
# Runs the long tests of tests/guest: scripts/soak.sh [--seconds N] [--only TEXT]
#
# Each test lasts N seconds, by default 600: kills at 500 random points, forks, signal handlers at 20 kHz, jumps out of
# calls, user threads that a signal switches, cancelled threads, threads by the thousand, drivers opened and closed, 300
# times attach and detach, attach to programs in random situations (killed culprits, forks, execs, signals, plugins,
# Python), 100 million stacks. With --only, it runs the tests whose names contain TEXT. Prints a row for each
# test. Exit code 1: a test failed.
set -euo pipefail
. "$(dirname "$0")/fail.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
scripts/build.sh >&2
exec python3 tests/guest/soak.py build "$@"
