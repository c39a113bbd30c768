"""A Numba loop that copies an array to the GPU and back: prints numba=NS, the median nanoseconds of a step."""
import statistics
import time

import numpy
from numba import cuda

numbers = numpy.arange(1 << 16, dtype=numpy.float32)
result = numpy.empty_like(numbers)


def step():
    scratch = cuda.device_array(numbers.shape, numbers.dtype)
    there = cuda.to_device(numbers)
    scratch.copy_to_device(there)
    scratch.copy_to_host(result)


def timed(steps):
    cuda.synchronize()
    begin = time.perf_counter_ns()
    for _ in range(steps):
        step()
    cuda.synchronize()
    return (time.perf_counter_ns() - begin) / steps


timed(100)
print(f"numba={statistics.median(timed(100) for _ in range(15)):.1f}")
