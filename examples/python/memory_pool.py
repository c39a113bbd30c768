#!/usr/bin/env python3
"""Question: "I deleted the arrays, and the memory is still used", with pycuda.tools.DeviceMemoryPool.

True verdict: CACHED. The pool keeps what was given back, for the next request; free_held() (--free-held) gives it to
the driver. The program ends with os._exit, so that no destructor tidies up behind the picture.
"""
# run:
# expect: cached count=1 function=<module> kind=device
# run: --free-held
# expect: clean
import os
import sys

import pycuda.driver as cuda
from pycuda.tools import DeviceMemoryPool

cuda.init()
context = cuda.Device(0).make_context()
pool = DeviceMemoryPool()
for _ in range(10):
    array = pool.allocate(1024 * 1024)  # leak-here
    del array
if "--free-held" in sys.argv:
    pool.free_held()
os._exit(0)
