#!/usr/bin/env python3
"""Question: "memory stays taken after a Python thread ends", wrapped in a class whose __del__ frees.

True verdict: it depends on the thread that drops the last reference. A worker: CLEAN. The main thread (--outlives):
free() raises inside __del__, Python only prints the exception, and the memory stays. For a reference cycle (--cycle)
the garbage collector calls __del__ in the thread in which it runs, here the main thread.
"""
# run:
# expect: clean
# run: --outlives
# expect: leak bytes=104857600 count=4 function=__init__ cause=held threads=4 ended-threads=4
# run: --cycle
# expect: leak bytes=104857600 count=4 function=__init__ cause=never-freed threads=4 ended-threads=4
import gc
import sys
import threading

import pycuda.driver as cuda

results = []


class Buffer:
    def __init__(self, size):
        self.memory = cuda.mem_alloc(size)  # leak-here

    def __del__(self):
        self.memory.free()


def worker():
    context = cuda.Device(0).make_context()
    buffer = Buffer(25 * 1024 * 1024)
    if "--outlives" in sys.argv:
        results.append(buffer)
    if "--cycle" in sys.argv:
        buffer.itself = buffer
    del buffer
    context.pop()
    results.append(context)


cuda.init()
gc.disable()
threads = [threading.Thread(target=worker) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
gc.collect()
