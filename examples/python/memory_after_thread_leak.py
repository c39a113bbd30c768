#!/usr/bin/env python3
"""Question: "memory stays taken after a Python thread ends", the corrected program: each thread has its own context.

PyCUDA frees a buffer when it is collected, and only in the thread of its context. Here a list of the main thread keeps
the buffers of the workers. They are collected at exit, in another thread, where PyCUDA does not free them; it
prints a warning at most.

--drop: the thread drops its buffer while its context is current. --detach: the thread destroys its context, and the
memory ends with it.
"""
# run:
# expect: leak bytes=104857600 count=4 function=worker cause=held api=cuMemAlloc threads=4 ended-threads=4
# run: --drop
# expect: clean
# run: --detach
# expect: leak bytes=104857600 count=4 function=worker cause=context-teardown api=cuMemAlloc
import sys
import threading

import pycuda.driver as cuda

kept = []


def worker():
    context = cuda.Device(0).make_context()
    buffer = cuda.mem_alloc(25 * 1024 * 1024)  # leak-here
    if "--drop" not in sys.argv:
        kept.append(buffer)
    del buffer
    context.pop()
    if "--detach" in sys.argv:
        context.detach()
    else:
        kept.append(context)


cuda.init()
threads = [threading.Thread(target=worker) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
