#!/usr/bin/env python3
"""The keepers of tensors in jobs of frameworks: training and generation, compilers, graphs, ranks, worker processes. In
each process of a job the keepers add up to the live memory, the list that the job keeps is named, and the output is
that of the job without the library."""
import glob
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from preloaded import FAIL, PASS, SKIP, finish, installed, row, run

AT_ONCE = 5
HEAD = """
import os, sys, warnings
warnings.filterwarnings("ignore")
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import torch
torch.manual_seed(0)
kept = []
def keep(value):
    kept.append(value); print("kept", len(kept), flush=True)
if __name__ == "__main__": torch.zeros(1, device="cuda")
"""
RANK = """
os.environ.update(MASTER_ADDR="127.0.0.1", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
import torch.distributed as dist, tempfile
dist.init_process_group("nccl", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
"""
# `work(rank)` in two processes, each with a GPU of its own.
TWO_RANKS = """
import torch.distributed as dist, torch.multiprocessing as mp
def rank_of_job(rank, place):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=place, rank=rank, world_size=2, device_id=torch.device("cuda", rank))
    work(rank)
    dist.destroy_process_group()
if __name__ == "__main__":
    import tempfile
    mp.spawn(rank_of_job, (f"file://{tempfile.mktemp()}",), nprocs=2)
"""
JOBS = {
    "transformers: training": ("transformers", """
from transformers import BertConfig, BertForSequenceClassification
model = BertForSequenceClassification(BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                                                 intermediate_size=1024, vocab_size=1000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(0, 1000, (16, 128), device="cuda"); labels = torch.zeros(16, dtype=torch.long, device="cuda")
for step in range(STEPS):
    loss = model(tokens, labels=labels).loss
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    if step < 4: keep(model(tokens, labels=labels).loss)
""", "autograd"),
    "transformers: generation": ("transformers", """
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(n_embd=256, n_layer=4, n_head=4, vocab_size=1000, eos_token_id=None)).cuda().eval()
for _ in range(3):
    keep(model.generate(torch.ones(8, 16, dtype=torch.long, device="cuda"), max_new_tokens=32, do_sample=False,
                        pad_token_id=0, return_dict_in_generate=True, output_logits=True))
""", "variable"),
    "lightning": ("lightning", """
import lightning, logging
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__(); self.net = torch.nn.Linear(512, 512)
    def training_step(self, batch, _):
        loss = self.net(batch[0]).square().mean()
        keep(self.net(batch[0]).square().mean()); return loss
    def configure_optimizers(self): return torch.optim.Adam(self.parameters())
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(4096, 512)), batch_size=1024)
lightning.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                  enable_model_summary=False, devices=1).fit(Model(), data)
""", "autograd"),
    "torch.compile": ("torch", """
@torch.compile
def step(x): return (x.sin() * 2).cos()
for _ in range(3): keep(step(torch.ones(1 << 20, device="cuda")))
""", "variable"),
    "CUDA graphs": ("torch", """
x = torch.ones(1 << 20, device="cuda")
stream = torch.cuda.Stream()
with torch.cuda.stream(stream): y = x * 2
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph): y = x * 2
for _ in range(3):
    graph.replay(); keep(y.clone())
""", "variable"),
    "DDP": ("torch", RANK + """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024).cuda())
for _ in range(3):
    model(torch.randn(512, 1024, device="cuda")).mean().backward()
    keep(model(torch.randn(512, 1024, device="cuda")).square().mean())
dist.destroy_process_group()
""", "autograd"),
    "FSDP": ("torch", RANK + """
from torch.distributed.fsdp import fully_shard
model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.Linear(1024, 1024)).cuda()
for part in model: fully_shard(part)
fully_shard(model)
for _ in range(3):
    model(torch.randn(512, 1024, device="cuda")).mean().backward()
    keep(torch.randn(512, 1024, device="cuda"))
dist.destroy_process_group()
""", "variable"),
    "PyTorch Geometric": ("torch_geometric", """
from torch_geometric.nn import GCNConv
model = GCNConv(128, 128).cuda()
edges = torch.randint(0, 5000, (2, 40000), device="cuda")
for _ in range(3): keep(model(torch.randn(5000, 128, device="cuda"), edges).square().mean())
""", "autograd"),
    "GPyTorch": ("gpytorch", """
import gpytorch
class GP(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean, self.kernel = gpytorch.means.ConstantMean(), gpytorch.kernels.RBFKernel()
    def forward(self, x): return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))
x = torch.linspace(0, 1, 500, device="cuda"); y = torch.sin(6 * x)
likelihood = gpytorch.likelihoods.GaussianLikelihood().cuda(); model = GP(x, y, likelihood).cuda()
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for _ in range(3): keep(-mll(model(x), y))
""", "autograd"),
    "Triton": ("triton", """
exec(compile(open(KERNEL).read(), KERNEL, "exec"))
for _ in range(3): keep(doubled(torch.ones(1 << 20, device="cuda")))
""", "variable"),
    "accelerate": ("accelerate", """
from accelerate import Accelerator
accelerator = Accelerator()
net = torch.nn.Linear(1024, 1024)
model, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters()))
for _ in range(3): keep(model(torch.randn(512, 1024, device="cuda")).square().mean())
""", "autograd"),
    "the profiler": ("torch", """
from torch.profiler import ProfilerActivity, profile
net = torch.nn.Linear(1024, 1024).cuda()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
    for _ in range(3): keep(net(torch.randn(512, 1024, device="cuda")).square().mean())
""", "autograd"),
    "workers of a DataLoader": ("torch", """
data = torch.utils.data.TensorDataset(torch.randn(4096, 512))
data = torch.utils.data.DataLoader(data, batch_size=1024, num_workers=2, pin_memory=True)
for batch, in data: keep(batch.cuda(non_blocking=True))
""", "variable"),
    "spawned workers": ("torch", """
import torch.multiprocessing as mp
def work(rank):
    for _ in range(3): keep(torch.ones(1 << 20, device="cuda"))
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
    for _ in range(3): keep(torch.ones(1 << 20, device="cuda"))
""", "variable"),
    "checkpointing and mixed precision": ("torch", """
from torch.utils.checkpoint import checkpoint
net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
scaler = torch.amp.GradScaler("cuda")
for _ in range(3):
    with torch.autocast("cuda"): keep(checkpoint(net, torch.randn(512, 1024, device="cuda", requires_grad=True),
                                                 use_reentrant=False).float().square())
""", None),
    "sparse tensors and subclasses": ("torch", """
class Named(torch.Tensor): pass
for _ in range(3): keep(torch.ones(1 << 20, device="cuda").as_subclass(Named))
sparse = torch.eye(1024, device="cuda").to_sparse(); named = torch.ones(1 << 20, device="cuda").as_subclass(Named)
""", "variable"),
}
JOBS_OF_TWO_GPUS = {
    "DDP on two GPUs": ("torch", """
def work(rank):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024).cuda(), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(512, 1024, device="cuda")).mean().backward(); optimizer.step(); optimizer.zero_grad()
        keep(model(torch.randn(512, 1024, device="cuda")).square().mean())
""" + TWO_RANKS, "autograd"),
    "FSDP on two GPUs": ("torch", """
from torch.distributed.fsdp import fully_shard
def work(rank):
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
    for part in model: fully_shard(part)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(512, 1024, device="cuda")).mean().backward(); optimizer.step(); optimizer.zero_grad()
        keep(model(torch.randn(512, 1024, device="cuda")).square().mean())
""" + TWO_RANKS, "autograd"),
    "FullyShardedDataParallel on two GPUs": ("torch", """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
def work(rank):
    model = FSDP(torch.nn.Sequential(*[FSDP(torch.nn.Linear(1024, 1024).cuda()) for _ in range(4)]), device_id=rank)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(512, 1024, device="cuda")).mean().backward(); optimizer.step(); optimizer.zero_grad()
        keep(torch.randn(512, 1024, device="cuda"))
""" + TWO_RANKS, "variable"),
    "a tensor on each of two GPUs": ("torch", """
for place in "cuda:0", "cuda:1", "cuda:1": keep(torch.ones(1 << 20, device=place))
""", "variable"),
}
if len(glob.glob("/dev/nvidia[0-9]*")) >= 2:
    JOBS.update(JOBS_OF_TWO_GPUS)
KERNEL = """
import torch, triton, triton.language as tl
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
def doubled(x):
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""


def inside_of(report):
    return [cache["inside"] for cache in report["summary"]["caches"]
            if cache["pool"] == "PyTorch caching allocator" and "inside" in cache]


def check(name):
    """The job's name and its problem, or how much is named."""
    _, text, kind = JOBS[name]
    with tempfile.TemporaryDirectory(prefix="culprit-job-") as folder:
        kernel, program = os.path.join(folder, "kernel.py"), os.path.join(folder, "job.py")
        for path, content in (kernel, KERNEL), (program, f"KERNEL = {kernel!r}; STEPS = 20{HEAD}{text}"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
        done = run([sys.executable, program])
        alone = run([sys.executable, program], preload=False)
    if alone.returncode != 0:
        return name, SKIP, alone.stderr[-300:]
    if (done.returncode, sorted(done.stdout)) != (0, sorted(alone.stdout)):
        return name, FAIL, f"exit code {done.returncode}, {done.stdout[-200:]} {done.stderr[-400:]}"
    seen = [inside for report in done.reports for inside in inside_of(report)]
    if not seen:
        return name, FAIL, f"nothing from inside the cache: {[report['notes'] for report in done.reports]}"
    for inside in seen:
        total = sum(one["bytes"] for one in inside["kept"] if one["kind"] != "pending")
        if total != inside["live_bytes"]:
            return name, FAIL, f"keepers of {total} of {inside['live_bytes']} live bytes"
    rows = [one for inside in seen for one in inside["kept"] if "`kept" in one["path"]]
    if kind is not None and not any(one["kind"] == kind for one in rows):
        return name, FAIL, f"no row of `kept`: {[(one['kind'], one['path']) for one in seen[0]['kept'][:5]]}"
    live = sum(inside["live_bytes"] for inside in seen)
    named = sum(one["bytes"] for one in rows)
    unnamed = ("native", "not-known")
    unknown = sum(one["bytes"] for inside in seen for one in inside["kept"] if one["kind"] in unnamed)
    return name, PASS, (f"{live >> 20} MiB live in {len(seen)} processes, {named >> 20} MiB of it by `kept`, "
                        f"{unknown * 100 // max(live, 1)} % without a variable")


def timed():
    """The time of a training job, with the library and without it, in turns."""
    _, text, _ = JOBS["transformers: training"]
    with tempfile.TemporaryDirectory(prefix="culprit-job-") as folder:
        program = os.path.join(folder, "job.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f"STEPS = 500{HEAD}{text}")
        times = {True: [], False: []}
        for _ in range(3):
            for preload in times:
                begin = time.monotonic()
                run([sys.executable, program], preload=preload)
                times[preload].append(time.monotonic() - begin)
    return min(times[False]), min(times[True])


if not installed("torch"):
    row(SKIP, "keepers in jobs", "torch is not installed")
    finish()
present = [name for name, job in JOBS.items() if installed(job[0])]
with ThreadPoolExecutor(AT_ONCE) as pool:
    for job_name, outcome, detail in pool.map(check, present):
        row(outcome, f"keepers in jobs: {job_name}", detail)
for name in sorted(set(JOBS) - set(present)):
    row(SKIP, f"keepers in jobs: {name}", "not installed")
if os.environ.get("CULPRIT_TIME_JOBS") == "1":
    row(PASS, "time of a training job of 500 steps", "without {:.2f} s, with its report {:.2f} s".format(*timed()))
finish()
