#!/usr/bin/env python3
"""Question: "memory stays taken after a Python thread ends", with the program that people paste: pycuda.autoinit makes
a context in the main thread, each worker allocates, nobody frees.

Popular answer: "free it in the thread, PyCUDA leaks". True verdict: CLEAN. A context is current in one thread only; in
the workers none is, so each mem_alloc fails ("invalid device context") and nothing was ever allocated. What nvidia-smi
shows is the main thread's context.
"""
# run:
# expect: clean
import threading

import pycuda.autoinit  # noqa: F401  pylint: disable=unused-import
import pycuda.driver as cuda


def worker():
    buffer = cuda.mem_alloc(100 * 1024 * 1024)
    cuda.memset_d8(buffer, 0, 100 * 1024 * 1024)


threads = [threading.Thread(target=worker) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("used after the threads:", cuda.mem_get_info())
