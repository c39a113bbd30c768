"""A Python program that culprit attaches to while it runs: allocates, frees and leaks through ctypes until standard
input is closed. Prints "ready", and "fine" at its end."""

import ctypes
import sys
import threading

runtime = ctypes.CDLL(sys.argv[1])


def allocate(size):
    pointer = ctypes.c_void_p()
    status = runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size))
    if status != 0:
        sys.exit(f"cudaMalloc: {status}")
    return pointer


def leak_after():
    return allocate(20001)


def churn(stop):
    while not stop.wait(0.001):
        pointers = [allocate(5001) for _ in range(4)]
        text = [str(number) * 3 for number in range(200)]
        for pointer in pointers:
            if runtime.cudaFree(pointer) != 0:
                sys.exit("cudaFree failed")
        del text


allocate(11001)
stop = threading.Event()
threads = [threading.Thread(target=churn, args=(stop,)) for _ in range(2)]
for thread in threads:
    thread.start()
print("ready", flush=True)
while sys.stdin.buffer.raw.read(1):
    leak_after()
stop.set()
for thread in threads:
    thread.join()
print("fine")
