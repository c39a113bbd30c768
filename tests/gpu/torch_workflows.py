#!/usr/bin/env python3
"""How users of PyTorch meet leaks: as failures of pytest, and as the report of a torchrun job whose second rank leaks.
On a machine with one GPU both ranks use it."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from preloaded import CULPRIT, FAIL, LIBRARY, PACKAGE, PASS, SKIP, finish, installed, row

TESTS = """import pytest, torch
kept, cache = [], {}
def alloc(size): return torch.empty(size, dtype=torch.uint8, device="cuda")
def test_leaves_idle_memory(): alloc(64 << 20)
def test_multiplies():
    x = torch.ones(512, 512, device="cuda")
    assert (x @ x).sum().item() == 512 ** 3
def test_keeps(): kept.append(alloc(64 << 20))
@pytest.mark.culprit(warmups=1)
def test_fills_a_cache(): cache.setdefault("table", alloc(32 << 20))
@pytest.mark.culprit(allow="64M")
def test_may_keep(): kept.append(alloc(64 << 20))
"""
TRAIN = """import ctypes, os, torch
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank % torch.cuda.device_count())
x = torch.ones(512, 512, device="cuda")
def leak(size):
    pointer = ctypes.c_void_p()
    assert ctypes.CDLL("libcudart.so.13").cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
if rank == 1: leak(50 << 20)
"""


def run(folder, *command):
    environment = dict(os.environ, CULPRIT_COMMAND=str(CULPRIT), CULPRIT_LIBRARY=str(LIBRARY), NO_COLOR="1",
                       COLUMNS="150", PYTHONPATH=os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run([str(word) for word in command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=500, check=False)


def run_pytest(folder, *options):
    (folder / "test_it.py").write_text(TESTS, encoding="utf-8")
    return run(folder, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "culprit.pytest_plugin",
               "--culprit", *options, "test_it.py")


def pytest_finds_what_is_kept(folder, *options):
    done = run_pytest(folder, *options)
    right = (done.returncode == 1 and re.search(r"\b1 failed, 4 passed", done.stdout) is not None
             and "FAILED test_it.py::test_keeps - leaked 64.0 MiB held by `test_it.kept`, a list of 1\n" in done.stdout
             and "culprit: warning" not in done.stderr)
    return right, (done.stdout[-400:] + done.stderr[-200:] if right else done.stdout[-3000:] + done.stderr[-1000:])


def pytest_in_workers(folder):
    if not installed("xdist"):
        return None, "pytest-xdist is not installed"
    return pytest_finds_what_is_kept(folder, "-n", "2")


def pytest_shows_lines(folder):
    os.environ["CULPRIT_TORCH_HISTORY"] = "1"
    try:
        done = run_pytest(folder, "-k", "test_keeps")
    finally:
        del os.environ["CULPRIT_TORCH_HISTORY"]
    line = "FAILED test_it.py::test_keeps - leaked 64.0 MiB at test_it.py:3 alloc\n"
    return line in done.stdout, done.stdout[-400:] + done.stderr[-200:]


def report_begins_with_the_job(folder, *launcher):
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    done = run(folder, CULPRIT, "run", "--out", folder / "dumps" / "%p.dump", "--", sys.executable, "-m", *launcher,
               "train.py")
    reports = re.findall(r"^culprit · .*", done.stderr, re.MULTILINE)
    right = (done.returncode == 0 and bool(reports) and "2 processes, ranks 0, 1, on " in reports[0]
             and "\nLEAKED 50.0 MiB in 1 allocation, 1 group\n" in done.stderr
             and "1 of 2 ranks, rank 1: 50.0 MiB" in done.stderr and "train.py:7" in done.stderr)
    merged = run(folder, CULPRIT, "merge", folder / "dumps", "-o", folder / "job.json")
    job = run(folder, CULPRIT, "report", folder / "job.json").stdout
    right = (right and merged.returncode == 0 and ", ranks 0, 1" in job.partition("\n")[0]
             and "1 of 2 ranks, rank 1: 50.0 MiB" in job)
    return right, f"{reports[:1]}; merged: {job.partition(chr(10))[0]}" if right else done.stderr[-3000:] + job[-500:]


def torchrun_begins_with_the_job(folder):
    return report_begins_with_the_job(folder, "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def accelerate_begins_with_the_job(folder):
    return report_begins_with_the_job(folder, "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
                                      "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")


CHECKS = {"pytest: a tensor that is kept fails its test": ("pytest", pytest_finds_what_is_kept),
          "pytest: in the workers of pytest-xdist": ("pytest", pytest_in_workers),
          "pytest: the line of a tensor, with PyTorch's history": ("pytest", pytest_shows_lines),
          "torchrun: the report begins with the job": ("torch", torchrun_begins_with_the_job),
          "accelerate: the report begins with the job": ("accelerate", accelerate_begins_with_the_job)}

for name, (package, check) in CHECKS.items():
    missing = [needed for needed in ("torch", package) if not installed(needed)]
    if missing:
        row(SKIP, name, f"{missing[0]} is not installed")
        continue
    try:
        with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as there:
            outcome, detail = check(Path(there))
        row(SKIP if outcome is None else PASS if outcome else FAIL, name, detail)
    except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
        row(FAIL, name, error)
finish()
