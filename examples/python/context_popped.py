#!/usr/bin/env python3
"""Question: "is memory that I free after context.pop() really freed?"

True verdict: CLEAN. PyCUDA makes the context current again for the free, in the thread that the context belongs to;
also when the buffer is only collected (--collected). Not when the context was destroyed before (--detached): the memory
went with it.
"""
# run:
# expect: clean
# run: --collected
# expect: clean
# run: --detached
# expect: leak bytes=26214400 count=1 function=main cause=context-teardown
import sys

import pycuda.driver as cuda


def main():
    cuda.init()
    context = cuda.Device(0).make_context()
    buffer = cuda.mem_alloc(25 * 1024 * 1024)  # leak-here
    context.pop()
    if "--detached" in sys.argv:
        context.detach()
    elif "--collected" in sys.argv:
        del buffer
    else:
        buffer.free()


main()
