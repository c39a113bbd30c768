#!/usr/bin/env python3
"""Memory that one process gives to another one: the report must agree with the memory that came back at each step.

The subject `sharing` is two processes. It prints how many MiB came back when rank 0 freed the memory, when rank 1
closed it, and when rank 1 ended (with its context).
"""
import json
import os
import subprocess
import tempfile
from pathlib import Path

from preloaded import CULPRIT, FAIL, LIBRARY, PASS, SKIP, TREE, finish, row

METHODS = {"ipc": "ipc-handle", "descriptor": "file-descriptor", "pool": "pool-pointer"}
MIB = 512
NOISE = 32  # other figures of the driver
# order: (the state in the report, whether the memory is back after each of the first two steps)
ORDERS = {
    "stays": ("stays", False, False),
    "returned": (None, False, True),
    "closed": (None, False, True),
    "open": ("open", False, False),
}


def function_in(stack, name):
    return any(name in (frame.get("function") or "") for frame in stack or [])


def shared_of(dumps):
    command = [CULPRIT, "report", "--format", "json", "--fail-on", "none", *dumps]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    return json.loads(result.stdout).get("shared", [])


def check(method, order):
    name = f"sharing: {method} {order}"
    state, freed_back, closed_back = ORDERS[order]
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as folder:
        variables = dict(os.environ, LD_PRELOAD=str(LIBRARY), CULPRIT_OUT=f"{folder}/%p.dump", CULPRIT_QUIET="1")
        result = subprocess.run([str(TREE / "subjects" / "sharing"), method, order], env=variables,
                                capture_output=True, text=True, timeout=300)
        if result.returncode == 77:
            return row(SKIP, name, "this driver does not share memory by it")
        if result.returncode != 0:
            return row(FAIL, name, f"exit code {result.returncode}: {result.stderr[-400:]}")
        shared = shared_of(sorted(Path(folder).glob("*.dump")))
    freed, closed, ended = (int(word) for word in result.stdout.split())
    figures = f"came back: {freed} MiB when freed, {closed} when closed, {ended} when rank 1 ended"
    driver = (freed > MIB - NOISE) == freed_back and (closed > MIB - NOISE) == closed_back
    if state is None:
        right = not shared
    else:
        right = len(shared) == 1 and shared[0]["state"] == state and shared[0]["type"] == METHODS[method] and (
            shared[0]["bytes"] == MIB << 20 and shared[0]["exporter"]["rank"] == 0 and
            function_in(shared[0]["exporter"]["stack"], "export_here") and
            function_in(shared[0]["importer"]["stack"], "open_here"))
    text = shared[0]["text"] if shared else "no entry"
    return row(PASS if driver and right else FAIL, name, f"{figures}; culprit: {text}")


for one in METHODS:
    for way in ORDERS:
        try:
            check(one, way)
        except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
            row(FAIL, f"sharing: {one} {way}", repr(error))
finish()
