#!/usr/bin/env python3
"""Question: "memory stays taken after a Python thread ends", with an explicit free() in the thread.

True verdict: CLEAN, also when the context is no longer current: free() makes it current, in the thread of the context.
In another thread (--elsewhere) free() fails with "cannot activate out-of-thread context", and the memory stays.
"""
# run:
# expect: clean
# run: --after-pop
# expect: clean
# run: --elsewhere
# expect: leak bytes=104857600 count=4 function=worker cause=held threads=4 ended-threads=4
import sys
import threading

import pycuda.driver as cuda

handed_over = []


def free_elsewhere():
    for late, _ in handed_over:
        try:
            late.free()
        except cuda.LogicError as error:
            print("not freed:", error)


def worker():
    context = cuda.Device(0).make_context()
    buffer = cuda.mem_alloc(25 * 1024 * 1024)  # leak-here
    if sys.argv[1:] == []:
        buffer.free()
    context.pop()
    if "--after-pop" in sys.argv:
        buffer.free()
    handed_over.append((buffer, context))


cuda.init()
threads = [threading.Thread(target=worker) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if "--elsewhere" in sys.argv:
    free_elsewhere()
