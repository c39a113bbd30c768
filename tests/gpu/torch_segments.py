#!/usr/bin/env python3
"""PyTorch's own count of its segments against ours.

torch.cuda.memory_stats() counts every cudaMalloc that the caching allocator made (num_device_alloc) and every cudaFree
(num_device_free). The difference is what must be live in our report with a stack through the allocator's library. The
program ends with os._exit, so that no destructor changes the picture after it was counted.
"""
import importlib.util
import sys

from preloaded import FAIL, PASS, SKIP, finish, groups, passes_through, row, run

WORKLOADS = {
    "segments stay": """
keep = [torch.empty(n, dtype=torch.uint8, device="cuda") for n in (1000, 3 << 20, 30 << 20, 100 << 20)]
""",
    "some given back with empty_cache": """
keep = [torch.empty(n << 20, dtype=torch.uint8, device="cuda") for n in (25, 50, 75, 100)]
del keep[1], keep[2]
torch.cuda.empty_cache()
""",
    "a small training loop": """
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    loss = model(torch.randn(256, 512, device="cuda")).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
""",
}
COUNT = """
torch.cuda.synchronize()
stats = torch.cuda.memory_stats()
print(stats["num_device_alloc"], stats["num_device_free"], stats["reserved_bytes.all.current"], flush=True)
os._exit(0)
"""


def main():
    if importlib.util.find_spec("torch") is None:
        row(SKIP, "torch segments", "PyTorch is not installed")
        return
    for name, workload in WORKLOADS.items():
        finished = run([sys.executable, "-c", "import os, torch\n" + workload + COUNT],
                       report_options=["--full-stacks"])
        if finished.returncode != 0:
            row(FAIL, f"torch: {name}", f"exit code {finished.returncode}: {finished.stderr[-300:]}")
            continue
        made, freed, reserved = (int(word) for word in finished.stdout.split())
        ours = [group for group in groups(finished.report) if passes_through(group, "libc10_cuda")]
        count, size = sum(group["count"] for group in ours), sum(group["bytes"] for group in ours)
        outcome = PASS if count == made - freed and size == reserved else FAIL
        row(outcome, f"torch: {name}",
            f"PyTorch: {made} made, {freed} freed, {reserved} bytes reserved; culprit: {count} live, {size} bytes")


if __name__ == "__main__":
    main()
    finish()
