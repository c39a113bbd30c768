"""A CuPy loop without its memory pool, so that every array is a cudaMalloc: prints cupy=NS, the median nanoseconds of a step."""
import statistics
import time

import cupy

cupy.cuda.set_allocator(None)
numbers = cupy.arange(1 << 20, dtype=cupy.float32)


def step():
    doubled = cupy.multiply(numbers, 2)
    return cupy.add(doubled, numbers)


def timed(steps):
    cupy.cuda.runtime.deviceSynchronize()
    begin = time.perf_counter_ns()
    for _ in range(steps):
        step()
    cupy.cuda.runtime.deviceSynchronize()
    return (time.perf_counter_ns() - begin) / steps


timed(200)
print(f"cupy={statistics.median(timed(200) for _ in range(15)):.1f}")
