"""A Numba loop that copies an array to the GPU and back."""

import loop
import numpy
from numba import cuda

numbers = numpy.arange(1 << 16, dtype=numpy.float32)
result = numpy.empty_like(numbers)


def step():
    scratch = cuda.device_array(numbers.shape, numbers.dtype)
    there = cuda.to_device(numbers)
    scratch.copy_to_device(there)
    scratch.copy_to_host(result)


loop.run("numba", step, cuda.synchronize, 100)
