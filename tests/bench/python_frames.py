"""Allocates below few and below many Python frames, on the simulated driver with its calls made free: python_frames.py
LIBRARY [few|many CALLS]

Prints python_frame=NS: the added cost of a pair of cuMemAllocAsync and cuMemFreeAsync for each Python frame of its
stack, which is always the same one. With a second argument so many pairs are made below few or many
frames, and nothing is timed: for counting instructions.
"""
import ctypes
import statistics
import sys
import time

FEW, MANY = 5, 35
CALLS, ROUNDS = 50000, 15

library = ctypes.CDLL(sys.argv[1])
library.bench_pairs.argtypes = [ctypes.c_long]


def below(frames, call):
    """A function that calls `call` through so many functions, all of them different ones, as in a program."""
    for number in range(frames):
        scope = {"inner": call}
        exec(f"def level_{number}():\n    return inner()", scope)
        call = scope[f"level_{number}"]
    return call


def timed():
    begin = time.perf_counter_ns()
    library.bench_pairs(CALLS)
    return (time.perf_counter_ns() - begin) / CALLS


library.bench_begin()
if len(sys.argv) > 2:
    calls = int(sys.argv[3])
    frames = {name: below(number, lambda: library.bench_pairs(calls))
              for name, number in (("few", FEW), ("many", MANY))}
    frames[sys.argv[2]]()
else:
    few, many = below(FEW, timed), below(MANY, timed)
    few(), many()
    # Taken in turn, so that other work of the machine disturbs both.
    added = [many() - few() for _ in range(ROUNDS)]
    print(f"python_frame={statistics.median(added) / (MANY - FEW):.2f}")
