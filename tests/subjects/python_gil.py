#!/usr/bin/env python3
"""python_gil.py LIBRARY: one thread allocates while another one has the GIL and waits for it. Ends when no
other thread wants the GIL meanwhile."""
import ctypes
import sys
import threading

driver = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
library, library_with_gil = ctypes.CDLL(sys.argv[1]), ctypes.PyDLL(sys.argv[1])


def allocate():
    if library.allocate_with_lock(context) != 0:
        print("the driver failed")


if driver.cuInit(0) != 0 or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) != 0:
    sys.exit("the driver failed")
thread = threading.Thread(target=allocate)
thread.start()
library_with_gil.take_lock()
thread.join()
print("done")
