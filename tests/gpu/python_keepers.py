#!/usr/bin/env python3
"""Which variable keeps each tensor: the programs of keeper_programs.py, each in a process of its own. The right keepers
have to have the right bytes, the keepers have to add up to the live memory, and no code of the program may run."""
import sys
from concurrent.futures import ThreadPoolExecutor

from keeper_programs import PROGRAMS, is_row, program_head, without_lengths
from preloaded import FAIL, PASS, SKIP, finish, installed, row, run

AT_ONCE = 6


def check(program):
    """The program's name and its problem; "" when there is none."""
    name, text, rows = program
    try:
        done = run([sys.executable, "-c", program_head("cuda") + text])
        alone = run([sys.executable, "-c", program_head("cuda") + text], preload=False) if not rows else done
    except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
        return name, str(error)
    if (done.returncode, done.stdout) != (0, "") or alone.returncode != 0:
        return name, f"exit code {done.returncode}, {done.stdout} {done.stderr[-300:]}"
    inside, = [cache["inside"] for cache in done.report["summary"]["caches"] if "inside" in cache] or [None]
    if inside is None:
        return name, f"nothing from inside the cache: {done.report['notes']}"
    found = [(one["kind"], without_lengths(one["path"]), one["bytes"] >> 20) for one in inside["kept"][:6]]
    total = sum(one["bytes"] for one in inside["kept"] if one["kind"] != "pending")
    if total != inside["live_bytes"]:
        return name, f"keepers of {total} of {inside['live_bytes']} live bytes: {found}"
    missing = [wanted for wanted in rows if not any(is_row(wanted, one) for one in inside["kept"])]
    if missing:
        return name, f"missing {missing} in {found}"
    headline = [one for one in done.report["findings"] if one["finding"] == "live-in-caches"]
    largest = max(rows, key=lambda one: (one[0] in ("variable", "autograd", "garbage"), one[2]), default=None)
    texts = [without_lengths(one["text"]) for one in headline]
    if " and " not in name and rows and not any(largest[1].rstrip(".") in text for text in texts):
        return name, f"the headline names another keeper: {[one['text'] for one in headline]}"
    return name, ""


if not installed("torch"):
    row(SKIP, "keepers of tensors", "torch is not installed")
    finish()
with ThreadPoolExecutor(AT_ONCE) as pool:
    problems = [(name, problem) for name, problem in pool.map(check, PROGRAMS) if problem]
for name, problem in problems:
    row(FAIL, f"keepers of tensors: {name}", problem)
row(FAIL if problems else PASS, "keepers of tensors", f"{len(PROGRAMS) - len(problems)} of {len(PROGRAMS)} programs")
finish()
