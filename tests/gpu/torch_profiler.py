#!/usr/bin/env python3
"""PyTorch's profiler beside culprit: as many GPU events as without, the same output and exit code."""
import sys

from preloaded import FAIL, PASS, SKIP, finish, installed, row, run

SCRIPT = """
import torch
from torch.profiler import ProfilerActivity, profile
a = torch.randn(512, 512, device="cuda")
torch.cuda.synchronize()
(a @ a).sum().item()  # cuBLAS is loaded before anything is counted
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    for _ in range(20):
        a = (a @ a).relu() * 0.5
    torch.cuda.synchronize()
print(sum(1 for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA))
"""


def main():
    name = "torch profiler: GPU events beside culprit"
    if not installed("torch"):
        row(SKIP, name, "PyTorch is not installed")
        return
    alone = run([sys.executable, "-c", SCRIPT], preload=False)
    beside = run([sys.executable, "-c", SCRIPT])
    detail = (f"without: {alone.stdout.strip()} events, exit code {alone.returncode}; "
              f"with: {beside.stdout.strip()}, {beside.returncode}")
    if alone.returncode != 0:
        row(SKIP, name, f"the profiler does not work here: {alone.stderr[-300:]}")
        return
    same = alone.stdout == beside.stdout and beside.returncode == 0 and int(alone.stdout) > 0
    row(PASS if same else FAIL, name, detail if same else detail + ": " + beside.stderr[-300:])


if __name__ == "__main__":
    main()
    finish()
