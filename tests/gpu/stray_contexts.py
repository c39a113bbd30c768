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

TRAIN = """
import os
import torch
import torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
if rank == 1: BEFORE
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2048, 2048).cuda(), device_ids=[rank])
if rank == 1: AFTER
for _ in range(3): model(torch.rand(64, 2048, device="cuda")).sum().backward()
torch.cuda.synchronize()
if rank == 1: AT_END
dist.destroy_process_group()
"""
LOAD = "state = torch.load(CHECKPOINT)"
# Where a way stands in TRAIN, its statement, the line that it gets there, and its kind.
STRAY = {
    "mem_get_info(0)": ("AT_END", "torch.cuda.mem_get_info(0)", 13, "empty"),
    "synchronize() before set_device": ("BEFORE", "torch.cuda.synchronize()", 6, "empty"),
    "zeros(1).cuda() before set_device": ("BEFORE", "torch.zeros(1).cuda()", 6, "leftovers"),
    "torch.load of cuda:0 before set_device": ("BEFORE", LOAD, 6, "leftovers"),
    "torch.load of cuda:0 after the model": ("AFTER", LOAD, 10, "leftovers"),
}
# Both GPUs are meant.
ON_TWO = {
    "DataParallel": """
model = torch.nn.DataParallel(torch.nn.Linear(256, 256).cuda(), device_ids=[0, 1])
for _ in range(3): model(torch.rand(64, 256, device="cuda")).sum().backward()
""",
    "a pipeline": """
first, second = torch.nn.Linear(256, 256).to("cuda:0"), torch.nn.Linear(4096, 4096).to("cuda:1")
for _ in range(3): second(first(torch.rand(8, 256, device="cuda:0")).repeat(1, 16).to("cuda:1")).sum().backward()
""",
    "copies between two GPUs": """
one, other = torch.rand(1 << 16, device="cuda:0"), torch.rand(1 << 24, device="cuda:1")
for _ in range(20):
    other[:1 << 16].copy_(one * 2)
    one.copy_(other[:1 << 16] + 1)
""",
    "kernels on two GPUs": """
small, large = torch.rand(1 << 10, device="cuda:0"), torch.rand(1 << 24, device="cuda:1")
for _ in range(20):
    small.add_(1)
    large.add_(1)
""",
}
MOST_BYTES = 560 << 20  # of a context on an H100 or H200, beside 33 other processes
CLEAN = ["train"] * 6 + [*ON_TWO] + ["DataParallel", "a pipeline"]


def script_of(way, folder):
    if way in ON_TWO:
        return "import torch\n" + ON_TWO[way] + "torch.cuda.synchronize(0)\ntorch.cuda.synchronize(1)\n"
    place, statement = STRAY[way][:2] if way in STRAY else ("", "")
    script = TRAIN
    for name in ("BEFORE", "AFTER", "AT_END"):
        script = script.replace(name, statement if name == place else "pass")
    return script.replace("CHECKPOINT", repr(str(folder / "checkpoint.pt")))


def run_job(folder, way):
    """The contexts of all processes, and the report's text."""
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(script_of(way, folder.parent), encoding="utf-8")
    launcher = [] if way in ON_TWO else ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([CULPRIT, "run", "--out", folder / "dumps" / "%p.dump", "--", sys.executable, *launcher,
                           script], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
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
        subprocess.run([sys.executable, "-c", "import sys, torch; torch.save({'weight': torch.rand(64, 64).cuda()}, "
                        "sys.argv[1])", folder / "checkpoint.pt"], check=True, timeout=120)
        clean = [(way, pool.submit(run_job, folder / f"clean{i}", way)) for i, way in enumerate(CLEAN)]
        strays = [(way, pool.submit(run_job, folder / f"stray{i}", way)) for i, way in enumerate(STRAY)]
        check_clean(clean)
        for way, job in strays:
            check_stray(way, job)


main()
finish()
