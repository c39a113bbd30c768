#!/usr/bin/env python3
"""PyTorch, CuPy and JAX without their pools, Numba, cuda-python: our count equals what the script allocated, and each
buffer has its Python line.

Each script keeps some buffers and frees others, then ends with os._exit, so that no destructor frees the kept ones. It
runs twice, keeping none and keeping them: the difference between the two reports must be exactly the kept buffers,
whatever the framework holds for itself.
"""
import sys

from preloaded import FAIL, PASS, SKIP, finish, groups, installed, row, run

SIZES = [11001, 20001, 300001, 4000001]
FREED = [5001, 600001]

SCRIPTS = {
    "cupy without its pool": ("cupy", """
import cupy
cupy.cuda.set_allocator(None)
make = lambda n: cupy.empty(n, dtype=cupy.uint8)
freed = [make(n) for n in freed_sizes]
kept = [make(n) for n in kept_sizes]
del freed
cupy.cuda.runtime.deviceSynchronize()
"""),
    "numba": ("numba", """
import numpy
from numba import cuda
make = lambda n: cuda.device_array(n, dtype=numpy.uint8)
freed = [make(n) for n in freed_sizes]
kept = [make(n) for n in kept_sizes]
del freed
cuda.current_context().deallocations.clear()  # Numba frees in batches
cuda.synchronize()
"""),
    "cuda-python, driver API": ("cuda.bindings", """
from cuda.bindings import driver
def call(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) > 1 else None
call(driver.cuInit(0))
call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))))
freed = [call(driver.cuMemAlloc(n)) for n in freed_sizes]
kept = [call(driver.cuMemAlloc(n)) for n in kept_sizes]
for pointer in freed: call(driver.cuMemFree(pointer))
"""),
    "cuda-python, runtime API": ("cuda.bindings", """
from cuda.bindings import runtime
def call(result):
    assert result[0] == runtime.cudaError_t.cudaSuccess, result
    return result[1] if len(result) > 1 else None
freed = [call(runtime.cudaMalloc(n)) for n in freed_sizes]
kept = [call(runtime.cudaMalloc(n)) for n in kept_sizes]
for pointer in freed: call(runtime.cudaFree(pointer))
"""),
    "jax without its pool": ("jax", """
import numpy
import jax
make = lambda n: jax.block_until_ready(jax.device_put(numpy.zeros(n, dtype=numpy.uint8)))
freed = [make(n) for n in freed_sizes]
kept = [make(n) for n in kept_sizes]
for array in freed: array.delete()
"""),
    "torch without its pool": ("torch", """
import torch
make = lambda n: torch.empty(n, dtype=torch.uint8, device="cuda")
freed = [make(n) for n in freed_sizes]
kept = [make(n) for n in kept_sizes]
del freed
torch.cuda.synchronize()
"""),
}
# Exact sizes go to the driver, except where the framework rounds them up first.
ROUNDING = {"jax without its pool", "torch without its pool"}
ENVIRONMENT = {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform", "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
DEVICE_KINDS = {"device", "stream-ordered", "managed", "pitched", "vmm-physical"}  # XLA allocates through cuMemCreate


def live(script, kept):
    """Count and bytes of device memory that was live at the end of a script which keeps `kept`, and the bytes that the
    line of `kept` made."""
    source = f"import os\nkept_sizes = {kept}\nfreed_sizes = {FREED}\n{script}\nos._exit(0)\n"
    line = next(number for number, text in enumerate(source.splitlines(), start=1) if text.startswith("kept = "))
    finished = run([sys.executable, "-c", source], **ENVIRONMENT)
    if finished.returncode != 0:
        raise RuntimeError(f"exit code {finished.returncode}: {finished.stderr[-300:]}")
    ours = [group for group in groups(finished.report) if group["kind"] in DEVICE_KINDS]
    of_line = [group for group in ours
               if any(frame["language"] == "python" and frame["file"] == "<string>" and frame["line"] == line
                                              for frame in group["stack"])]
    return (sum(group["count"] for group in ours), sum(group["bytes"] for group in ours),
            sum(group["bytes"] for group in of_line))


def main():
    for name, (package, script) in SCRIPTS.items():
        if not installed(package):
            row(SKIP, name, f"{package} is not installed")
            continue
        try:
            count_without, bytes_without, _ = live(script, [])
            count_with, bytes_with, bytes_of_line = live(script, SIZES)
        except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
            row(FAIL, name, error)
            continue
        count, size = count_with - count_without, bytes_with - bytes_without
        same_size = size >= sum(SIZES) if name in ROUNDING else size == sum(SIZES)
        outcome = PASS if count == len(SIZES) and same_size else FAIL
        row(outcome, name, f"script: {len(SIZES)} kept, {sum(SIZES)} bytes; culprit: {count} live, {size} bytes "
                           f"({count_without} of its own)")
        # Memory that the framework allocates for itself on the way belongs to the line, too.
        row(PASS if bytes_of_line >= size else FAIL, f"{name}: Python lines",
            f"{bytes_of_line} of {size} bytes have the script's line")


if __name__ == "__main__":
    main()
    finish()
