#!/usr/bin/env python3
"""Question: "The context stack was not empty upon module cleanup", and the program is aborted at its end.

make_context() pushes a context that the program never pops. True verdict: no memory leaked, because the buffer was
freed; one context was left behind, made at the marked line. context_popped.py is the corrected program.
"""
# run:
# expect: resource kind=context count=1 function=main
# expect: ended unknown
# exit: SIGABRT
import pycuda.driver as cuda


def main():
    cuda.init()
    cuda.Device(0).make_context()  # leak-here
    buffer = cuda.mem_alloc(25 * 1024 * 1024)
    buffer.free()


main()
