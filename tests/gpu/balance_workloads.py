"""Programs whose memory in use has a balance: balance.cu's modes, the driver API, and frameworks."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

from preloaded import FAIL, HERE, SKIP, installed, row

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
BIG_ARRAY = "cudart, 64 MiB of __device__ memory"


def compile_programs(folder):
    """Returns None without nvcc, else the reason of a failure, or an empty text."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        return None
    for name, options in (("small", []), ("big", ["-DBIG_ARRAY"])):
        result = subprocess.run([nvcc, "-arch=native", "-cudart", "shared", "-g", *options, "-o", f"{folder}/{name}",
                                 str(HERE / "balance.cu")], capture_output=True, text=True, timeout=300)
        if result.returncode != 0:
            return result.stderr
    return ""


def workloads(check, folder):
    """Yields name, command and environment of each workload that this machine can run, as it is reached; prints a row
    `check: ...` for each other one. The command of a script is valid until the next workload."""
    try:
        problem = compile_programs(folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem is None:
        row(SKIP, f"{check}: cudart", "nvcc is not there")
    elif problem:
        row(FAIL, f"{check}: cudart", f"nvcc: {problem[-400:]}")
    else:
        for mode, name in MODES.items():
            yield name, [f"{folder}/small", mode], {}
        yield BIG_ARRAY, [f"{folder}/big", "plain"], {}
        yield f"{BIG_ARRAY}, eager", [f"{folder}/big", "plain"], {"CUDA_MODULE_LOADING": "EAGER"}
    for name, (package, script) in SCRIPTS.items():
        if package and not installed(package):
            row(SKIP, f"{check}: {name}", f"{package} is not there")
            continue
        path = Path(folder) / "workload.py"
        path.write_text(script)
        yield name, [sys.executable, path], ENVIRONMENT.get(name, {})
