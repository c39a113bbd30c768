#!/usr/bin/env python3
"""Twelve programs under `compute-sanitizer --tool memcheck --leak-check full` and under culprit: bytes and count of
device leaks must agree.

A machine whose virtualization compute-sanitizer does not support is a skipped row, not a failed one.
"""
import re
import shutil
import subprocess

from preloaded import FAIL, PASS, SKIP, TREE, finish, row, run

# Program and arguments, of examples/.
PROGRAMS = [
    ("memory_without_process_basic",),
    ("memory_without_process_basic", "--clean"),
    ("memory_without_process_managed",),
    ("memory_without_process_context",),
    ("memory_does_not_clear", "--forget"),
    ("memory_does_not_clear_pool", "--forget"),
    ("memory_does_not_clear_graph", "--forget"),
    ("memory_does_not_clear_graph", "--auto-free"),
    ("out_of_memory_exception",),
    ("out_of_memory_exception_pasted", "--too-much"),
    ("out_of_memory_library",),
    ("memory_after_thread",),
]
DEVICE_KINDS = {"device", "managed", "pitched", "stream-ordered", "array", "mipmapped-array", "graph-memory"}
SUMMARY = re.compile(r"LEAK SUMMARY: (\d+) bytes leaked in (\d+) allocations")
REFUSED = re.compile(r"Device not supported|not supported on this|Unable to initialize|InitializationError")


def find_sanitizer():
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")


def sanitizer_leaks(sanitizer, command):
    """(count, bytes) as compute-sanitizer sees them, None when it refuses this machine; raises on anything else."""
    arguments = [sanitizer, "--tool", "memcheck", "--leak-check", "full", "--report-api-errors", "no", *command]
    result = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    output = result.stdout + result.stderr
    if REFUSED.search(output):
        return None
    match = SUMMARY.search(output)
    if match:
        return int(match[2]), int(match[1])
    if "========= ERROR SUMMARY: 0 errors" in output:
        return 0, 0
    raise RuntimeError(f"no summary in compute-sanitizer's output: {output[-400:]}")


def our_leaks(command):
    ours = [group for group in run(command).report["leaks"] if group["kind"] in DEVICE_KINDS]
    return sum(group["count"] for group in ours), sum(group["bytes"] for group in ours)


def main():
    sanitizer = find_sanitizer()
    if sanitizer is None:
        row(SKIP, "compute-sanitizer", "not installed")
        return
    for name, *arguments in PROGRAMS:
        label = "compute-sanitizer: " + " ".join([name, *arguments])
        command = [str(TREE / "examples" / name), *arguments]
        try:
            theirs = sanitizer_leaks(sanitizer, command)
            if theirs is None:
                row(SKIP, "compute-sanitizer", "it refuses this machine's GPU (virtualized)")
                return
            ours = our_leaks(command)
        except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
            row(FAIL, label, error)
            continue
        detail = f"sanitizer {theirs[0]}x {theirs[1]} bytes; culprit {ours[0]}x {ours[1]} bytes"
        row(PASS if theirs == ours else FAIL, label, detail)


if __name__ == "__main__":
    main()
    finish()
