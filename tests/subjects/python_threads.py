#!/usr/bin/env python3
"""Two threads with names allocate and free nothing, a third makes no CUDA call. Prints the functions of the first one's
stack."""
import ctypes
import threading
import traceback

driver = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
stacks = []


def allocate():
    assert driver.cuCtxSetCurrent(context) == 0
    pointer = ctypes.c_uint64()
    assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(11001)) == 0
    stacks.append([frame.name for frame in reversed(traceback.extract_stack())])


for name in ("loader of the validation set", "größe"):
    thread = threading.Thread(target=allocate, name=name)
    thread.start()
    thread.join()
idle = threading.Thread(target=int, name="idle")
idle.start()
idle.join()
print(stacks[0][1:])
