#!/usr/bin/env python3
"""Memory without a process: culprit doctor names the ghost and the child that keeps its memory; when the child ends the
memory is back.

While the program still lives doctor must name it; that shows whether NVML lists processes here at all. In a container
NVML may tell other numbers than /proc does; the ghost then is the number that the living program had.
"""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from preloaded import CULPRIT, FAIL, PASS, SKIP, compiled, finish, row

GIB = 10
BYTES = GIB << 30
# The driver keeps some of what a context needs until the next one.
SLACK = 256 << 20
NAMES = ("doctor names a living process", "doctor names the ghost", "doctor names the child",
         "memory is back after the child")


def doctor():
    result = subprocess.run([str(CULPRIT), "doctor", "--format", "json"], stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, timeout=120)
    if result.returncode not in (0, 3):
        raise RuntimeError(f"culprit doctor: exit code {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def gpu_of(diagnosis, uuid):
    """The GPU that the program used. Under MIG its UUID is another than the GPU's; there is one GPU then, or no
    answer."""
    for gpu in diagnosis["gpus"]:
        if gpu["uuid"] == uuid:
            return gpu
    return diagnosis["gpus"][0] if len(diagnosis["gpus"]) == 1 else None


def used(gpu):
    return gpu["memory"]["used_bytes"]


def large(gpu, known=()):
    """Holders that NVML charges with what the program allocated."""
    return [holder for holder in gpu["holders"] if (holder["bytes"] or 0) >= BYTES and holder["pid"] not in known]


def wait_for(condition, seconds):
    """The first true result of `condition`, or the last one: the driver and NVML need a moment."""
    end = time.monotonic() + seconds
    result = condition()
    while not result and time.monotonic() < end:
        time.sleep(0.5)
        result = condition()
    return result


def skip_all(names, reason):
    for name in names:
        row(SKIP, name, reason)


def check(program):
    before = doctor()
    if not before["nvml"]:
        return skip_all(NAMES, "; ".join(before["unseen"]))
    parent = subprocess.Popen([str(program), str(GIB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True,
                              start_new_session=True)  # as a shell would: a process group of its own
    words = parent.stdout.readline().split()
    if len(words) != 4 or words[0] != "ready":
        parent.stdin.close()
        parent.wait()
        return row(FAIL, NAMES[0], f"the program did not start: {parent.stderr.read()[-300:]}")
    child, uuid = int(words[2]), words[3]
    try:
        follow(before, parent, child, uuid)
    finally:
        if parent.poll() is None:
            parent.kill()
            parent.wait()
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            pass


def follow(before, parent, child, uuid):
    first = gpu_of(before, uuid)
    if first is None or not first["memory"]:
        return skip_all(NAMES, f"NVML does not tell the memory of {uuid}")
    known = {holder["pid"] for holder in large(first)}
    living = wait_for(lambda: large(gpu_of(doctor(), uuid), known), 10)
    if not living:
        gpu = gpu_of(doctor(), uuid)
        if any(holder["use"] for holder in gpu["holders"]):
            return row(FAIL, NAMES[0], f"NVML lists processes, but none with {GIB} GiB: {gpu['holders']}")
        seen = any(holder["pid"] == parent.pid for holder in gpu["holders"])
        row(PASS if seen else FAIL, NAMES[0], "by its open files only: NVML lists no process here")
        number = parent.pid
    else:
        number = living[0]["pid"]
        row(PASS, NAMES[0], f"PID {number}"
            + ("" if number == parent.pid else f", which is {parent.pid} in this container"))

    parent.stdin.close()
    parent.wait()
    ghosts = wait_for(lambda: [holder for holder in large(gpu_of(doctor(), uuid), known)
                               if holder["kind"] != "process"], 10)
    if not ghosts:
        gpu = gpu_of(doctor(), uuid)
        taken = used(gpu) - used(first)
        if taken < BYTES - SLACK:
            row(FAIL, NAMES[1], f"the memory went with the parent: {taken} bytes more in use than before")
        elif not any(holder["use"] for holder in gpu["holders"]):
            keeper = any(holder["pid"] == child for holder in gpu["holders"])
            row(SKIP, NAMES[1], "NVML itself lists no process here")
            row(PASS if keeper else FAIL, NAMES[2], "by its open files")
        else:
            row(FAIL, NAMES[1], json.dumps(gpu["holders"]))
    else:
        ghost = ghosts[0]
        row(PASS if ghost["pid"] == number and ghost["kind"] == "ghost" else FAIL, NAMES[1],
            f"{ghost['kind']}: {ghost['explanation']}")
        keepers = [keeper["pid"] for keeper in ghost["keepers"]]
        row(PASS if child in keepers else FAIL, NAMES[2], f"child {child}, named: {keepers}; next: {ghost['next']}")

    os.kill(child, signal.SIGKILL)
    wait_for(lambda: used(gpu_of(doctor(), uuid)) <= used(first) + SLACK, 30)
    last = gpu_of(doctor(), uuid)
    left = large(last, known)
    row(PASS if used(last) <= used(first) + SLACK and not left else FAIL, NAMES[3],
        f"used {used(first)} bytes before, {used(last)} after; still named: {[holder['pid'] for holder in left]}")


def main():
    check(Path(sys.argv[1]) if len(sys.argv) > 1 else compiled("ghost"))


if __name__ == "__main__":
    main()
    finish()
