"""A CuPy loop without its memory pool, so that every array is a cudaMalloc."""

import cupy
import loop

cupy.cuda.set_allocator(None)
numbers = cupy.arange(1 << 20, dtype=cupy.float32)


def step():
    doubled = cupy.multiply(numbers, 2)
    return cupy.add(doubled, numbers)


loop.run("cupy", step, cupy.cuda.runtime.deviceSynchronize, 200)
