"""A server that keeps a buffer for each request: what the manual attaches to. The argument is libcudart's path."""
import ctypes
import sys
import time

runtime = ctypes.CDLL(sys.argv[1])


def device_buffer(size):
    pointer = ctypes.c_void_p()
    if runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) != 0:
        sys.exit("cudaMalloc failed")
    return pointer


def answer(kept):
    kept.append(device_buffer(1 << 20))


model = device_buffer(6 << 20)
kept = []
for _ in range(600):
    answer(kept)
    time.sleep(0.05)
