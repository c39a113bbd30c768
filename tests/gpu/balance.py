#!/usr/bin/env python3
"""The balance of a device at exit: what is in use has a name, and the rest is at most 1 % or 16 MiB.

Each workload runs once under the library. The row of a failed one has the whole balance and the calls that made the
driver take memory; with --verbose stderr gets them for each.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from preloaded import FAIL, HERE, PASS, SKIP, finish, installed, row, run

MIB = 1 << 20
LEAST = 16 * MIB
VERBOSE = "--verbose" in sys.argv

DRIVER = """
import ctypes
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)
call("cuInit", 0)
first, second, memory = c_void_p(), c_void_p(), c_uint64()
call("cuDevicePrimaryCtxRetain", byref(first), 0)
call("cuCtxSetCurrent", first)
call("cuMemAlloc_v2", byref(memory), c_size_t(50 << 20))
call("cuCtxCreate_v2", byref(second), 0, 0)
call("cuMemAlloc_v2", byref(memory), c_size_t(7 << 20))
call("cuCtxSetLimit", 0, c_size_t(8192))
call("cuMemsetD8_v2", memory, 1, c_size_t(7 << 20))
call("cuCtxSynchronize")
streams = [c_void_p() for _ in range(60)]
for stream in streams: call("cuStreamCreate", byref(stream), 1)
"""

# name: (package, script)
SCRIPTS = {
    "driver API, two contexts": (None, DRIVER),
    "PyTorch, matrix product": ("torch", """
import torch
a = torch.rand(4096, 4096, device="cuda")
for _ in range(3): b = a @ a
torch.cuda.synchronize()
"""),
    "PyTorch, training step, cuDNN": ("torch", """
import torch
model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3)).cuda()
for _ in range(3): model(torch.rand(16, 3, 128, 128, device="cuda")).sum().backward()
torch.cuda.synchronize()
"""),
    "PyTorch, CUDA graphs": ("torch", """
import torch
a = torch.rand(1024, 1024, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3): b = a @ a
torch.cuda.current_stream().wait_stream(side)
graphs = []
for _ in range(4):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): c = (a @ a).relu()
    graph.replay()
    graphs.append(graph)
torch.cuda.synchronize()
"""),
    "PyTorch, torch.compile": ("triton", """
import torch
@torch.compile
def f(x): return (x.sin() * 2 + x.cos()).sum(1)
f(torch.rand(1024, 1024, device="cuda"))
torch.cuda.synchronize()
"""),
    "CuPy": ("cupy", """
import cupy
a = cupy.random.rand(2000, 2000)
b = (a @ a).sum()
cupy.cuda.runtime.deviceSynchronize()
"""),
    "Numba": ("numba", """
import numpy
from numba import cuda
streams = [cuda.stream() for _ in range(20)]
kept = [cuda.to_device(numpy.ones(1 << 20)) for _ in range(4)]
cuda.synchronize()
"""),
    "JAX": ("jax", """
import jax, jax.numpy as np
x = np.ones((2000, 2000))
(x @ x).block_until_ready()
"""),
}
NCCL = """
import torch
parts = [torch.rand(1 << 22, device=f"cuda:{gpu}") for gpu in range(2)]
for _ in range(3): torch.cuda.nccl.all_reduce(parts)
for gpu in range(2): torch.cuda.synchronize(gpu)
"""
# The pool that JAX takes at its start would hide all other figures.
ENVIRONMENT = {"JAX": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}}

MODES = {
    "plain": "cudart",
    "stack": "cudart, stack limit of 32 KiB",
    "local": "cudart, kernel with 16 KiB of local memory",
    "device": "cudart, printf and malloc in kernels",
    "graphs": "cudart, graphs that leak",
    "graph-local": "cudart, local memory of a kernel in a graph",
    "graph-memory": "cudart, memory that graphs allocate",
    "pools": "cudart, pools",
    "host-pool": "cudart, a pool on the host",
    "small": "cudart, small allocations and streams",
}
# Their largest item: local memory, wherever the driver takes it.
LOCAL = {MODES["stack"], MODES["local"], MODES["graph-local"]}


def mib(number):
    return f"{number / MIB:.1f}"


def place(stack):
    for frame in stack:
        if frame.get("file") and "/" not in (frame.get("function") or ""):
            return f"{frame['function']} {os.path.basename(frame['file'])}:{frame['line']}"
    return " < ".join(f"{frame.get('function')}" for frame in stack[:4])


def explain(name, report, output):
    """Everything that is known about one run, as text."""
    lines = [f"== {name}: {output.strip()[-200:]}"]
    for device in report["devices"]:
        lines.append(f"   memory of GPU {device['ordinal']}: {device['memory']}, live {mib(device['live_bytes'])}")
    for balance in report.get("balances", []):
        parts = ", ".join(f"{item['what']} {mib(item['bytes'])}" for item in balance["items"])
        in_use = mib(balance["in_use_bytes"])
        lines.append(f"   GPU {balance['device']} {balance['moment']}: in use {in_use} = {parts}; "
                     f"{balance['calls_not_measured']} calls not measured, managed {mib(balance['managed_bytes'])}, "
                     f"limits {balance['limits']}")
    for bill in report.get("bills", [])[:40]:
        lines.append(f"   {bill['what']} GPU {bill['device']}: {mib(bill['bytes'])} in {bill['count']} x {bill['api']} "
                     f"at {place(bill['stack'])}")
    for context in report["contexts"]:
        lines.append(f"   context on GPU {context['device']}: {context['kind']} {context['api']} "
                     f"{mib(context['bytes'] or 0)} others {context['others_included']} stray {context['stray']}")
    if VERBOSE:
        print("\n".join(lines), file=sys.stderr, flush=True)
    return "\n".join(lines)


def check(name, command, gpus=1, **environment):
    result = run(command, **environment)
    # A compiler's processes do not use the GPU.
    report = next((report for report in result.reports if report.get("balances")), None) or result.report
    everything = explain(name, report, result.stdout + result.stderr)
    # numba-cuda gives its context back when Python ends: nothing is in use at exit.
    moment = "peak" if report["contexts"] and all(one["ended"] for one in report["contexts"]) else "exit"
    found = {one["device"]: one for one in report.get("balances", []) if one["moment"] == moment}
    for gpu in range(gpus):
        row_name = f"balance: {name}" + (f", GPU {gpu}" if gpus > 1 else "")
        balance = found.get(gpu)
        if result.returncode != 0 or balance is None:
            row(FAIL, row_name, f"exit code {result.returncode}, balance {balance}: {everything}")
            continue
        rest = balance["items"][-1]["bytes"]
        # No workload makes graphs again and again.
        growing = any(bill.get("growing") for bill in report.get("bills", []))
        good = abs(rest) <= max(LEAST, balance["in_use_bytes"] // 100) and not growing
        if name in LOCAL:
            good = good and max(balance["items"], key=lambda item: item["bytes"])["what"] == "local-memory"
        parts = ", ".join(f"{item['what']} {mib(item['bytes'])}" for item in balance["items"])
        row(PASS if good else FAIL, row_name,
            f"{mib(balance['in_use_bytes'])} MiB at {moment} = {parts}" + ("" if good else f" {everything}"))


def check_safely(name, command, gpus=1, **environment):
    """A mistake of this script is a failed row, and the other workloads still run."""
    try:
        check(name, command, gpus, **environment)
    except Exception:  # whatever it is
        row(FAIL, f"balance: {name}", traceback.format_exc())


def check_nccl(path):
    name = "NCCL on two GPUs"
    if not installed("torch"):
        row(SKIP, f"balance: {name}", "torch is not there")
        return
    path.write_text("import sys, torch\nsys.exit(torch.cuda.device_count() < 2)\n")
    if subprocess.run([sys.executable, path], timeout=120).returncode != 0:
        row(SKIP, f"balance: {name}", "there is one GPU")
        return
    path.write_text(NCCL)
    check_safely(name, [sys.executable, path], gpus=2)


def compile_programs(folder):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        return None
    for name, options in (("small", []), ("big", ["-DBIG_ARRAY"])):
        result = subprocess.run([nvcc, "-arch=native", "-cudart", "shared", "-g", *options, "-o", f"{folder}/{name}",
                                 str(HERE / "balance.cu")], capture_output=True, text=True, timeout=300)
        if result.returncode != 0:
            return result.stderr
    return ""


def main():
    with tempfile.TemporaryDirectory(prefix="culprit-balance-") as folder:
        try:
            problem = compile_programs(folder)
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        if problem is None:
            row(SKIP, "balance: cudart", "nvcc is not there")
        elif problem:
            row(FAIL, "balance: cudart", f"nvcc: {problem[-400:]}")
        else:
            for mode, name in MODES.items():
                check_safely(name, [f"{folder}/small", mode])
            array = "cudart, 64 MiB of __device__ memory"
            check_safely(array, [f"{folder}/big", "plain"])
            check_safely(f"{array}, eager", [f"{folder}/big", "plain"], CUDA_MODULE_LOADING="EAGER")
        for name, (package, script) in SCRIPTS.items():
            if package and not installed(package):
                row(SKIP, f"balance: {name}", f"{package} is not there")
                continue
            path = Path(folder) / "workload.py"
            path.write_text(script)
            check_safely(name, [sys.executable, path], **ENVIRONMENT.get(name, {}))
        check_nccl(Path(folder) / "workload.py")
    finish()


main()
