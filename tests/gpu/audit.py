#!/usr/bin/env python3
"""culprit run --audit: no call that makes or ends something goes past the hooks, in any program here.

CUPTI's callbacks count the calls of the driver, whichever way a program found its functions. A difference to what was
recorded fails a row, which names each function with its stack.
"""
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile

from preloaded import CULPRIT, FAIL, LIBRARY, PASS, SKIP, TREE, finish, installed, row

TORCH = """
import torch
from torch import nn
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    x = torch.randn(16, 3, 32, 32).pin_memory().cuda(non_blocking=True)
    loss = model(x).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
torch.linalg.solve(torch.eye(64, device="cuda"), torch.ones(64, 1, device="cuda"))
torch.fft.fft(torch.randn(1024, device="cuda"))
streams = [torch.cuda.Stream() for _ in range(4)]
events = [torch.cuda.Event(enable_timing=True) for _ in range(8)]
for event in events: event.record()
torch.cuda.synchronize()
"""
TORCH_GRAPH = """
import torch
x = torch.randn(256, 256, device="cuda")
for _ in range(3): y = (x @ x).relu()
torch.cuda.synchronize()
for _ in range(3):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x @ x).relu().sum()
    graph.replay()
    torch.cuda.synchronize()
    del graph
"""
NCCL = """
import torch, torch.distributed as dist
dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29577", rank=0, world_size=1)
x = torch.ones(1 << 20, device="cuda")
dist.all_reduce(x); dist.barrier(); torch.cuda.synchronize()
dist.destroy_process_group()
"""
CUPY = """
import cupy
a = cupy.random.rand(256, 256)
cupy.linalg.solve(a, a); cupy.fft.fft(a); (a @ a).sum()
cupy.cuda.alloc_pinned_memory(4096)
with cupy.cuda.Stream(non_blocking=True) as stream:
    stream.begin_capture(); b = a + 1; graph = stream.end_capture()
graph.launch(); cupy.cuda.Stream.null.synchronize()
cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
[cupy.empty(1 << 20) for _ in range(4)]
cupy.cuda.runtime.deviceSynchronize()
"""
NUMBA = """
import numpy
from numba import cuda
for _ in range(4):
    x = cuda.to_device(numpy.zeros(1000)); x.copy_to_host(); del x
cuda.current_context().deallocations.clear()
cuda.pinned_array(100); cuda.mapped_array(100); cuda.managed_array(100); cuda.stream(); cuda.event()
cuda.synchronize()
"""
JAX = """
import jax, jax.numpy as jnp
f = jax.jit(lambda x: jnp.linalg.solve(x @ x + jnp.eye(64), x).sum() + jnp.fft.fft(x).real.sum())
for i in range(3): f(jnp.ones((64, 64)) * i).block_until_ready()
"""
VMM = """
from cuda.bindings import driver as d
def call(result):
    assert result[0] == d.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) > 1 else None
call(d.cuInit(0)); device = call(d.cuDeviceGet(0))
call(d.cuCtxSetCurrent(call(d.cuDevicePrimaryCtxRetain(device))))
prop = d.CUmemAllocationProp()
prop.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
prop.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
size = 2 << 20
handle = call(d.cuMemCreate(size, prop, 0)); address = call(d.cuMemAddressReserve(size, 0, 0, 0))
call(d.cuMemMap(address, size, 0, handle, 0))
call(d.cuMemRelease(call(d.cuMemRetainAllocationHandle(int(address)))))
call(d.cuMemUnmap(address, size)); call(d.cuMemRelease(handle)); call(d.cuMemAddressFree(address, size))
host = call(d.cuMemHostAlloc(4096, 0)); call(d.cuMemFreeHost(host))
pointer, pitch = d.cuMemAllocPitch(1000, 10, 4)[1:]; call(d.cuMemFree(pointer))
call(d.cuMemFree(call(d.cuMemAllocManaged(4096, 1))))
graph = call(d.cuGraphCreate(0)); call(d.cuGraphExecDestroy(call(d.cuGraphInstantiate(graph, 0))))
call(d.cuGraphDestroy(graph))
stream = call(d.cuStreamCreate(0)); call(d.cuStreamDestroy(stream)); call(d.cuEventDestroy(call(d.cuEventCreate(0))))
"""
SCRIPTS = {
    "PyTorch with cuDNN, cuBLAS, cuSOLVER, cuFFT": ("torch", TORCH),
    "PyTorch with graphs": ("torch", TORCH_GRAPH),
    "NCCL": ("torch", NCCL),
    "CuPy with a graph and a pool": ("cupy", CUPY),
    "Numba": ("numba", NUMBA),
    "JAX": ("jax", JAX),
    "cuda-python: VMM, graphs": ("cuda.bindings", VMM),
}
# A profiler of the program keeps CUPTI: the audit ends, and the profiler has its events.
PROFILER = """
import torch
from torch.profiler import ProfilerActivity, profile
a = torch.randn(512, 512, device="cuda"); (a @ a).sum().item()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    for _ in range(20): a = (a @ a).relu() * 0.5
    torch.cuda.synchronize()
print(sum(1 for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA))
"""


def find_cupti():
    """libcupti for programs that have none loaded: the toolkit's, else a Python package's."""
    places = ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/local/cuda*/extras/CUPTI/lib64"]
    places += [os.path.join(folder, "nvidia/*/lib") for folder in sys.path if folder]
    return next((found for place in places for found in sorted(glob.glob(f"{place}/libcupti.so.1[23]"))), "")


def audited(command, timeout=120):
    """(the finished command, the reports of its processes)."""
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as folder:
        variables = dict(os.environ, CULPRIT_LIBRARY=str(LIBRARY), XLA_PYTHON_CLIENT_PREALLOCATE="false",
                         CULPRIT_TEST_GPU="1")  # the subjects leave out calls that crash NVIDIA's driver
        cupti = find_cupti()
        if cupti:
            variables["CULPRIT_CUPTI"] = cupti
        ours = [CULPRIT, "run", "--audit", "--format", "json", "-o", f"{folder}/report", "--"]
        result = subprocess.run(ours + list(command), env=variables, stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=timeout)
        with open(f"{folder}/report", encoding="utf-8") as file:
            report = json.load(file)
    return result, report.get("reports", [report])


def frames(stack):
    def text(frame):
        place = os.path.basename(frame["file"] or frame["module"])
        return f"{frame['function'] or frame['offset']} ({place}:{frame['line']})"
    return " < ".join(text(frame) for frame in stack[:12]) or "no stack"


def judge(reports):
    """(calls, functions, what is wrong) of the audits."""
    calls, functions, wrong = 0, set(), []
    for report in reports:
        audit = report.get("audit")
        if audit is None:
            continue
        if audit["problem"]:
            wrong.append(audit["problem"])
        calls += audit["calls"]
        functions |= {one["api"] for one in audit["by_function"]}
        wrong += [f"{one['api']} {one['count']}x {one['bytes']} B: {frames(one['stack'])}"
                  for one in audit["not_recorded"]]
    return calls, len(functions), wrong


# Loading CUPTI takes a second, so the programs run beside one another.
POOL = concurrent.futures.ThreadPoolExecutor(max_workers=max(1, min(8, (os.cpu_count() or 1) // 2)))


def begin(name, commands):
    """Starts the commands of a row. Returns a function that prints it when they have finished."""
    runs = [(command, POOL.submit(audited, command)) for command in commands]
    return lambda: check(name, runs)


def after(result):
    """The last line of a program that crashed: the subject `routes` prints one for each kind of resource."""
    return f" after: {result.stdout.splitlines()[-1:]}" if result.returncode < 0 else ""


def check(name, commands):
    calls, functions, wrong = 0, 0, []
    for command, running in commands:
        try:
            result, reports = running.result()
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            wrong.append(f"{command[0]}: {error}")
            continue
        more, kinds, problems = judge(reports)
        calls, functions = calls + more, max(functions, kinds)
        if result.returncode not in (0, 77):  # 77: it needs what is not here, a second GPU
            wrong.append(f"exit code {result.returncode}: {result.stderr[-300:]}{after(result)}")
        label = f"{os.path.basename(str(command[0]))}: " if len(commands) > 1 else ""
        wrong += [label + problem for problem in problems]
    fine = not wrong and calls != 0
    row(PASS if fine else FAIL, f"audit: {name}", f"{calls} calls of {functions} functions: all recorded" if fine else
        f"{calls} calls: " + "; ".join(wrong))


def programs(folder, names=None):
    found = sorted(path for path in (TREE / folder).glob("*") if path.is_file() and os.access(path, os.X_OK)
                   and not path.suffix and (names is None or path.name in names))
    return [[str(path)] for path in found]


def check_profiler():
    name = "audit: a profiler of the program keeps CUPTI"
    if not installed("torch"):
        row(SKIP, name, "PyTorch is not installed")
        return
    result, reports = audited([sys.executable, "-c", PROFILER])
    problems = [report["audit"]["problem"] or "" for report in reports if "audit" in report]
    ended = any("profiler took CUPTI" in problem for problem in problems)
    events = result.stdout.strip()
    fine = result.returncode == 0 and events.isdigit() and int(events) > 0 and ended
    row(PASS if fine else FAIL, name, f"{events} GPU events; {problems} {'' if fine else result.stderr[-300:]}")


def main():
    rows = []
    for name, (package, script) in SCRIPTS.items():
        if installed(package):
            rows.append(begin(name, [[sys.executable, "-c", script]]))
        else:
            rows.append(lambda name=name, package=package: row(SKIP, f"audit: {name}", f"{package} is not installed"))
    # An orphan outlives its parent.
    examples = [command for command in programs("examples") if "orphan" not in command[0]]
    if examples:
        rows.append(begin("the examples", examples))
    # Each kind of resource, made and ended on each way to the driver.
    for route in ("linked", "dlsym", "proc-address"):
        for how in ("leak", "free"):
            commands = [[*command, route, how]
                        for command in programs("subjects", {"routes_linked" if route == "linked" else "routes"})]
            if commands:
                rows.append(begin(f"every kind of resource, {route}, {how}", commands))
    runtime = programs("subjects", {"runtime_kinds", "runtime_kinds_static", "runtime_kinds_nvstatic",
                                    "runtime_kinds_per_thread"})
    if runtime:
        rows.append(begin("every kind of the runtime", [[*command, "free"] for command in runtime]))
    subjects = programs("subjects", {"peak", "device_reset"})
    if subjects:
        rows.append(begin("out of memory, a reset", subjects))
    for finish_row in rows:
        finish_row()
    check_profiler()


if __name__ == "__main__":
    main()
    finish()
