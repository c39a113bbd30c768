#!/usr/bin/env python3
"""The balance beside another process: each item as alone, within 1 % or 4 MiB.

Each workload runs under `culprit run` alone, and then beside a process that takes and gives back 64 to 448 MiB (the
subject `neighbour`). The balance has NVML's figure of the process, what others have, and no negative item but the rest.
"""
import json
import os
import subprocess
import tempfile
import traceback
from pathlib import Path

from balance_workloads import workloads
from preloaded import CULPRIT, FAIL, PASS, SKIP, TREE, finish, row

MIB = 1 << 20
OF_OTHERS = {"other-processes", "no-process"}


def parts(balance):
    return ", ".join(f"{item['what']} {item['bytes'] / MIB:.1f}" for item in balance["items"]) + (
        f", not known: {balance['not_known']}" if balance["not_known"] else "")


def balance_of(command, environment):
    """The balance of GPU 0 at exit, or at the peak where the contexts have ended by then."""
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as folder:
        done = subprocess.run([CULPRIT, "run", "--out", f"{folder}/%n.%p.dump", "--", *command],
                              env=dict(os.environ, CULPRIT_QUIET="1", **environment), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-600:]}")
        for dump in sorted(Path(folder).glob("*.dump")):
            text = subprocess.run([CULPRIT, "report", "--format", "json", dump], capture_output=True, text=True,
                                  timeout=120, check=False).stdout
            report = json.loads(text)
            found = {one["moment"]: one for one in report.get("balances", []) if one["device"] == 0}
            ended = report["contexts"] and all(one["ended"] for one in report["contexts"])
            if found:
                return found["peak" if ended else "exit"]
    raise RuntimeError("no process had a balance")


class Neighbour:
    """A process that takes and gives back memory, until the end of the block."""

    def __enter__(self):
        self.process = subprocess.Popen([TREE / "subjects" / "neighbour", "churn"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        return self

    def __exit__(self, *unused):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def differences(alone, beside):
    """The items that differ by more than 1 % and 4 MiB, with both figures in MiB."""
    before, after = ({item["what"]: item["bytes"] for item in one["items"] if item["what"] not in OF_OTHERS}
                     for one in (alone, beside))
    different = []
    for what in sorted(before.keys() | after.keys()):
        one, other = before.get(what, 0), after.get(what, 0)
        if abs(one - other) > max(4 * MIB, abs(one) // 100) or (other < 0 and what != "rest"):
            different.append(f"{what} {one / MIB:.1f} and {other / MIB:.1f}")
    return different


def check(name, command, environment):
    alone = balance_of(command, environment)
    with Neighbour():
        beside = balance_of(command, environment)
    if beside["process_bytes"] is None and alone["process_bytes"] is None:
        row(SKIP, f"beside a neighbour: {name}", beside["problem"])
        return
    different = differences(alone, beside)
    named = any(one["name"] == "neighbour" for one in beside["other_processes"] or [])
    good = not different and not beside["not_known"] and named
    row(PASS if good else FAIL, f"beside a neighbour: {name}", parts(beside) if good else
        f"{different}; alone: {parts(alone)}; beside: {parts(beside)}, problem {beside['problem']}, others "
        f"{beside['other_processes']}, {beside['calls_not_attributed']} calls not attributed, "
        f"{beside['calls_not_measured']} not measured")


def main():
    with tempfile.TemporaryDirectory(prefix="culprit-shared-") as folder:
        for name, command, environment in workloads("beside a neighbour", folder):
            try:
                check(name, command, environment)
            except Exception:  # pylint: disable=broad-except; a failed row, and the other workloads still run
                row(FAIL, f"beside a neighbour: {name}", traceback.format_exc()[-800:])
    finish()


main()
