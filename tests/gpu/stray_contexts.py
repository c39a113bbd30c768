#!/usr/bin/env python3
"""Stray contexts of torchrun jobs on two GPUs: ten clean jobs have none, and one that was planted is named by its line.

The jobs run at the same time: they share nothing but the GPUs.
"""
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from preloaded import CULPRIT, FAIL, PASS, SKIP, finish, installed, row

CLEAN_JOBS = 10
TRAIN = """
import os
import torch
import torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512).cuda(), device_ids=[rank])
for _ in range(3): model(torch.rand(64, 512, device="cuda")).sum().backward()
torch.cuda.synchronize()
PLANTED
dist.destroy_process_group()
"""
PLANTED = "if rank == 1: torch.cuda.mem_get_info(0)"


def run_job(folder, planted):
    """The contexts of both ranks, and the report's text."""
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(TRAIN.replace("PLANTED", PLANTED if planted else ""), encoding="utf-8")
    done = subprocess.run([CULPRIT, "run", "--out", folder / "dumps" / "%p.dump", "--", sys.executable, "-m",
                           "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
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


def main():
    if not installed("torch"):
        row(SKIP, "stray contexts", "torch is not installed")
        return
    count = subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"],
                           capture_output=True, text=True, timeout=120).stdout.strip()
    if not count.isdigit() or int(count) < 2:
        row(SKIP, "stray contexts", f"{count or 'no'} GPU, two are needed")
        return
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as there, ThreadPoolExecutor(CLEAN_JOBS + 1) as pool:
        jobs = [pool.submit(run_job, Path(there) / f"job{number}", number == CLEAN_JOBS)
                for number in range(CLEAN_JOBS + 1)]
        failures, seen, stray = [], 0, []
        for job in jobs[:-1]:
            try:
                contexts, _ = job.result()
                seen += len(contexts)
                stray += [context for context in contexts if context["stray"]]
            except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
                failures.append(str(error))
        good = not failures and not stray and seen >= 2 * CLEAN_JOBS
        row(PASS if good else FAIL, f"stray contexts: none in {CLEAN_JOBS} clean jobs of two ranks",
            f"{seen} contexts, {len(stray)} stray {stray[:1] or ''} {failures[:1] or ''}")
        name = "stray contexts: a planted one is named by its line"
        try:
            contexts, text = jobs[-1].result()
            stray = [context for context in contexts if context["stray"]]
            line = next((line for line in text.splitlines() if "STRAY CONTEXT" in line), "")
            good = (len(stray) == 1 and stray[0]["device"] == 0 and "rank 1 has a context on GPU 0" in line
                    and "train.py:12" in line)
            row(PASS if good else FAIL, name, line if good else f"{stray} {line} {text[-1500:]}")
        except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
            row(FAIL, name, error)


main()
finish()
