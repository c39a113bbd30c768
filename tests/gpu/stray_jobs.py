"""Jobs on two GPUs: one rank of some of them has a context on a GPU that it does not use."""
import subprocess
import sys

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


def script_of(way, folder):
    """`folder`: that of the checkpoint."""
    if way in ON_TWO:
        return "import torch\n" + ON_TWO[way] + "torch.cuda.synchronize(0)\ntorch.cuda.synchronize(1)\n"
    place, statement = STRAY[way][:2] if way in STRAY else ("", "")
    script = TRAIN
    for name in ("BEFORE", "AFTER", "AT_END"):
        script = script.replace(name, statement if name == place else "pass")
    return script.replace("CHECKPOINT", repr(str(folder / "checkpoint.pt")))


def launcher_of(way):
    """The words before the script."""
    return [] if way in ON_TWO else ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def save_checkpoint(folder):
    """The file that the jobs load, whose tensor was on the first GPU."""
    subprocess.run([sys.executable, "-c", "import sys, torch; torch.save({'weight': torch.rand(64, 64).cuda()}, "
                    "sys.argv[1])", folder / "checkpoint.pt"], check=True, timeout=120)
