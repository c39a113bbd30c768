#!/usr/bin/env python3
"""Allocates and frees from ever new Python functions, as programs that make code from templates do.

    python_endless.py COUNT LEAKS

Each of COUNT functions has a name, a file and lines of its own, makes one pair of calls and is dropped. LEAKS of them,
spread evenly, free nothing; they allocate 1 MiB + their number. Prints the size of the dump after half of them and at
the end.
"""
import ctypes
import os
import sys

driver = ctypes.CDLL("libcuda.so.1")
count, leaks = int(sys.argv[1]), int(sys.argv[2])
context = ctypes.c_void_p()


def check(code):
    if code != 0:
        sys.exit(f"the driver returned {code}")


def pair(size, leaking):
    pointer = ctypes.c_uint64()
    check(driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)))
    if not leaking:
        check(driver.cuMemFree_v2(pointer))


def dump_size():
    with open("/proc/self/maps") as maps:
        for line in maps:
            if line.rstrip().endswith(".dump"):
                return os.stat(line.split(None, 5)[5].strip()).st_size
    return 0


check(driver.cuInit(0))
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(driver.cuCtxSetCurrent(context))
for number in range(1, count + 1):
    scope = {"pair": pair}
    leaking = number % (count // leaks) == 0
    source = "\n" * (number % 50) + f"def function_{number}():\n    pair({2**20 + number}, {leaking})\n"
    exec(compile(source, f"template_{number}.py", "exec"), scope)
    scope[f"function_{number}"]()
    if number == count // 2:
        print(dump_size())
print(dump_size())
