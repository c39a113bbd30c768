#!/usr/bin/env python3
"""Marks, NVTX ranges and leak checks in PyTorch: ranges that the program pushes are read, culprit.check() finds what a
block keeps, the program's own use of NVTX goes on as before, and NCCL's ranges end where NCCL ends them."""
import json
import sys

from preloaded import FAIL, LIBRARY, PACKAGE, PASS, SKIP, TREE, finish, groups, installed, row, run

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import culprit, torch
assert culprit.loaded()
torch.cuda.init()
depths = [torch.cuda.nvtx.range_push("outer"), torch.cuda.nvtx.range_push("inner")]
with culprit.mark("epoch 1"):
    a = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
depths += [torch.cuda.nvtx.range_pop(), torch.cuda.nvtx.range_pop()]
b = torch.empty(7 << 20, dtype=torch.uint8, device="cuda")
with culprit.check():
    c = torch.empty(9 << 20, dtype=torch.uint8, device="cuda")
    del c
try:
    with culprit.check():
        d = torch.empty(11 << 20, dtype=torch.uint8, device="cuda")
    leak = None
except culprit.LeakError as error:
    leak = [error.leaked_bytes, "NOT FREED YET" in str(error)]
print(json.dumps({"depths": depths, "leak": leak}))
sys.stdout.flush()
import os
os._exit(0)
"""

NCCL = """
import os, sys, tempfile
import torch, torch.distributed as dist
store = tempfile.mkdtemp()
dist.init_process_group("nccl", init_method=f"file://{store}/store", world_size=1, rank=0)
dist.all_reduce(torch.ones(1 << 20, device="cuda"))
dist.barrier()
a = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
linear = torch.nn.Linear(4096, 4096).cuda()  # with cuBLAS
linear(torch.randn(64, 4096, device="cuda")).sum().item()
os._exit(0)
"""


def nccl_ranges():
    """NCCL pushes a range with a core function of NVTX, and ends it with one of the payload extension."""
    name = "NCCL: its ranges end"
    finished = run([sys.executable, "-c", NCCL], PYTORCH_NO_CUDA_MEMORY_CACHING="1",
                   NVTX_INJECTION64_PATH=str(LIBRARY))
    if finished.returncode != 0:
        row(SKIP, name, f"NCCL does not work here: {finished.stderr[-300:]}")
        return
    seen = [mark["name"] for mark in finished.report.get("marks", [])]
    late = {label["range"] for group in groups(finished.report) for label in group.get("marks", [])
            if group["bytes"] in (5 << 20, 64 << 20) and label.get("range")}
    row(FAIL if late else PASS, name, f"after NCCL: {sorted(late)}; ranges with allocations: {sorted(set(seen))}")


def main():
    if not installed("torch"):
        row(SKIP, "torch: NVTX ranges and culprit.check()", "PyTorch is not installed")
        return
    nccl_ranges()
    name = "torch: NVTX ranges and culprit.check()"
    package = TREE / "share" / "culprit" / "python"  # of an installed tree
    if not package.is_dir():
        package = PACKAGE
    finished = run([sys.executable, "-c", SCRIPT, package], PYTORCH_NO_CUDA_MEMORY_CACHING="1",
                   NVTX_INJECTION64_PATH=str(LIBRARY))
    if finished.returncode != 0:
        row(FAIL, name, f"exit code {finished.returncode}: {finished.stderr[-400:]}")
        return
    told = json.loads(finished.stdout.splitlines()[-1])
    labels = {group["bytes"] >> 20: group.get("marks", []) for group in finished.report["leaks"]}
    first = labels.get(5, [{}])[0]
    problems = []
    if (first.get("mark"), first.get("range")) != ("epoch 1", "inner"):
        problems.append(f"5 MiB were made in {first}")
    if labels.get(7):
        problems.append(f"7 MiB were made in {labels[7]}, nothing was open")
    if told["leak"] != [11 << 20, True]:
        problems.append(f"check() said {told['leak']}")
    if told["depths"] != [0, 1, 1, 0]:
        problems.append(f"NVTX's depths are {told['depths']}")
    row(FAIL if problems else PASS, name, "; ".join(problems) or f"depths {told['depths']}")


main()
finish()
