#!/usr/bin/env python3
"""Stray contexts on two GPUs: twelve clean jobs have none, and those of the planted ways are named by their line.

The jobs run at the same time: they share nothing but the GPUs.
"""
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from preloaded import CULPRIT, FAIL, PASS, SKIP, finish, installed, row
from stray_jobs import ON_TWO, STRAY, launcher_of, save_checkpoint, script_of

MOST_BYTES = 560 << 20  # of a context on an H100 or H200, beside 33 other processes
CLEAN = ["train"] * 6 + [*ON_TWO] + ["DataParallel", "a pipeline"]


def run_job(folder, way):
    """The contexts of all processes, and the report's text."""
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(script_of(way, folder.parent), encoding="utf-8")
    command = [CULPRIT, "run", "--out", folder / "dumps" / "%p.dump", "--", sys.executable, *launcher_of(way), script]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-600:]}")
    contexts = []
    for dump in sorted((folder / "dumps").iterdir()):
        if dump.suffix != ".dump":
            continue
        report = subprocess.run([CULPRIT, "report", "--format", "json", dump], capture_output=True, text=True,
                                timeout=120, check=False)
        contexts += json.loads(report.stdout)["contexts"]
    return contexts, done.stderr


def check_clean(jobs):
    failures, seen, stray = [], 0, []
    for way, job in jobs:
        try:
            contexts, _ = job.result()
            seen += len(contexts)
            stray += [(way, context) for context in contexts if context["stray"]]
        except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
            failures.append(f"{way}: {error}")
    good = not failures and not stray and seen >= 2 * len(CLEAN)
    row(PASS if good else FAIL, f"stray contexts: none in {len(CLEAN)} clean jobs",
        f"{seen} contexts, {len(stray)} stray {stray[:1] or ''} {failures[:1] or ''}")


def check_stray(way, job):
    name = f"stray contexts: {way}"
    _, _, place, kind = STRAY[way]
    try:
        contexts, text = job.result()
        stray = [context for context in contexts if context["stray"]]
        line = next((line for line in text.splitlines() if "STRAY CONTEXT:" in line), "")
        good = (len(stray) == 1 and stray[0]["device"] == 0 and stray[0]["stray_kind"] == kind
                and "rank 1 has a context on GPU 0" in line and f"train.py:{place}" in line
                and all(context["bytes"] is None or context["bytes"] < MOST_BYTES for context in stray))
        shown = [{key: value for key, value in context.items() if key != "stack"} for context in stray]
        row(PASS if good else FAIL, name, line if good else f"{shown} {line} {text[:400]}")
    except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
        row(FAIL, name, error)


def main():
    if not installed("torch"):
        row(SKIP, "stray contexts", "torch is not installed")
        return
    count = subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"],
                           capture_output=True, text=True, timeout=120).stdout.strip()
    if not count.isdigit() or int(count) < 2:
        row(SKIP, "stray contexts", f"{count or 'no'} GPU, two are needed")
        return
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as there, \
            ThreadPoolExecutor(len(CLEAN) + len(STRAY)) as pool:
        folder = Path(there)
        save_checkpoint(folder)
        clean = [(way, pool.submit(run_job, folder / f"clean{i}", way)) for i, way in enumerate(CLEAN)]
        strays = [(way, pool.submit(run_job, folder / f"stray{i}", way)) for i, way in enumerate(STRAY)]
        check_clean(clean)
        for way, job in strays:
            check_stray(way, job)


main()
finish()
