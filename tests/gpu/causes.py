#!/usr/bin/env python3
"""The causes of a report: an exception in a PyTorch training step leaves cached segments and nothing else; programs
that clean up leak nothing."""
from preloaded import FAIL, PASS, SKIP, finish, installed, row, run

FIND_LIBRARY = """
import ctypes, glob, os, sys
def library(name):
    folders = [os.path.join(folder, "nvidia", "*", "lib") for folder in sys.path]
    folders += ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"]
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, name + ".so.*"))):
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    sys.exit(77)
def check(status):
    assert status == 0, status
"""

SCRIPTS = {
    "torch: an exception inside a training step": ("torch", """
import torch
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda()
optimizer = torch.optim.Adam(model.parameters())
def step(i):
    x = torch.randn(1024, 512, device="cuda")
    loss = (model(x) - x).square().mean()
    loss.backward()
    if i == 3: raise RuntimeError("the loss is NaN")
    optimizer.step()
    optimizer.zero_grad()
caught = 0
for i in range(6):
    try:
        step(i)
    except RuntimeError:
        caught += 1
assert caught == 1
torch.cuda.synchronize()
"""),
    "cuBLAS: a clean program": ("cuda.bindings", FIND_LIBRARY + """
from cuda.bindings import runtime
pointers = [runtime.cudaMalloc(256 * 256 * 4)[1] for _ in range(3)]
library("libcublasLt")
cublas = library("libcublas")
handle = ctypes.c_void_p()
check(cublas.cublasCreate_v2(ctypes.byref(handle)))
one = ctypes.c_float(1)
n = 256
check(cublas.cublasSgemm_v2(handle, 0, 0, n, n, n, ctypes.byref(one), ctypes.c_void_p(int(pointers[0])), n,
                            ctypes.c_void_p(int(pointers[1])), n, ctypes.byref(one),
                            ctypes.c_void_p(int(pointers[2])), n))
assert int(runtime.cudaDeviceSynchronize()[0]) == 0
check(cublas.cublasDestroy_v2(handle))
for pointer in pointers: assert int(runtime.cudaFree(pointer)[0]) == 0
"""),
    "cuFFT: a clean program": ("cuda.bindings", FIND_LIBRARY + """
from cuda.bindings import runtime
pointer = runtime.cudaMalloc(1 << 20)[1]
cufft = library("libcufft")
plan = ctypes.c_int()
C2C = 0x29
check(cufft.cufftPlan1d(ctypes.byref(plan), 1 << 16, C2C, 2))
check(cufft.cufftExecC2C(plan, ctypes.c_void_p(int(pointer)), ctypes.c_void_p(int(pointer)), -1))
assert int(runtime.cudaDeviceSynchronize()[0]) == 0
check(cufft.cufftDestroy(plan))
assert int(runtime.cudaFree(pointer)[0]) == 0
"""),
    "CuPy: a clean program": ("cupy", """
import cupy
a = cupy.arange(100000, dtype=cupy.float32)
b = cupy.fft.fft(a)
c = cupy.ones((256, 256), dtype=cupy.float32) @ cupy.ones((256, 256), dtype=cupy.float32)
total = float(b.real.sum() + c.sum())
del a, b, c
cupy.get_default_memory_pool().free_all_blocks()
"""),
}


def check(name, script):
    result = run(["python3", "-c", script])
    if result.returncode == 77:
        return row(SKIP, name, "the library is not on this machine")
    if result.returncode != 0:
        return row(FAIL, name, f"exit code {result.returncode}: {result.stderr[-300:]}")
    report = result.report
    wrong = [group for group in report["leaks"] if group["cause"] != "cached"]
    cached = sum(group["bytes"] for group in report["leaks"] if group["cause"] == "cached")
    detail = f"{cached} bytes cached, {report['summary']['leaked_bytes']} leaked, {len(report['errors'])} errors"
    if wrong:
        top = wrong[0]
        where = " < ".join(frame.get("function") or "?" for frame in top["stack"][:6])
        detail += f"; {top['cause']} {top['api']} {top['bytes']} bytes: {where}"
    expected = cached > 0 if name.startswith("torch") else True
    row(PASS if not wrong and not report["errors"] and expected else FAIL, name, detail)


for name, (module, script) in SCRIPTS.items():
    if installed(module):
        check(name, script)
    else:
        row(SKIP, name, f"no {module} on this machine")
finish()
