#!/usr/bin/env python3
"""Addresses of GPU memory that objects of Python frameworks keep: each leak is held by the variable that has it, with
the program's output as it is alone, and memory that no variable has is not held."""
import tempfile
from pathlib import Path

from preloaded import FAIL, PASS, SKIP, finish, installed, row, run

MIB = 1 << 20
CUPY = """
import cupy
kept = cupy.cuda.runtime.malloc(1 << 20)
cache = {"weights": cupy.cuda.runtime.malloc(2 << 20), "table": [cupy.cuda.runtime.malloc(3 << 20) for _ in range(4)]}
class Engine: pass
engine = Engine()
engine.memory = cupy.cuda.UnownedMemory(cupy.cuda.runtime.malloc(4 << 20), 4 << 20, None)
def view():
    memory = cupy.cuda.UnownedMemory(cupy.cuda.runtime.malloc(5 << 20), 5 << 20, None)
    return cupy.ndarray((1 << 20,), dtype="float32", memptr=cupy.cuda.MemoryPointer(memory, 0))
array = view()
def lose(): cupy.cuda.runtime.malloc(6 << 20)
lose()
pooled = cupy.zeros(7 << 18, dtype="float32")
print(float(pooled.sum()))
"""
DRIVER = """
try: from cuda.bindings import driver
except ImportError: from cuda import cuda as driver
def check(result):
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) > 1 else None
check(driver.cuInit(0))
context = check(driver.cuDevicePrimaryCtxRetain(0))
check(driver.cuCtxSetCurrent(context))
kept = check(driver.cuMemAlloc(1 << 20))
table = [check(driver.cuMemAlloc(3 << 20)) for _ in range(4)]
cache = {"weights": int(check(driver.cuMemAlloc(2 << 20))), "table": table}
del table
class Engine: pass
engine = Engine()
engine.memory = check(driver.cuMemAlloc(4 << 20))
array = check(driver.cuMemAlloc(5 << 20))
def lose(): check(driver.cuMemAlloc(6 << 20))
lose()
print("end")
"""
CTYPES = """
import ctypes, glob
cudart = ctypes.CDLL("libcudart.so.13")
def malloc(size):
    pointer = ctypes.c_void_p()
    assert cudart.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
    return pointer
kept = malloc(1 << 20)
cache = {"weights": malloc(2 << 20).value, "table": [malloc(3 << 20) for _ in range(4)]}
class Engine: pass
engine = Engine()
engine.memory = malloc(4 << 20).value
array = (ctypes.c_void_p * 100)(*[0] * 99, malloc(5 << 20).value)
def lose(): malloc(6 << 20)
lose()
print("end")
"""
HELD = {1: "`kept`", 2: "`cache['weights']`", 3: "`cache['table']`, a list of 4", 4: "`engine.memory`", 5: "`array`"}
PROGRAMS = {"cupy": ("cupy", CUPY), "cuda-python": ("cuda", DRIVER), "ctypes": ("ctypes", CTYPES)}


def problem_of(text):
    with tempfile.TemporaryDirectory(prefix="culprit-raw-") as folder:
        program = Path(folder) / "program.py"
        program.write_text(text, encoding="utf-8")
        alone, under = (run(["python3", program], preload=preload) for preload in (False, True))
    if (alone.returncode, alone.stdout, alone.stderr) != (under.returncode, under.stdout, under.stderr):
        return f"differs from alone: {under.returncode} {under.stdout[-200:]} {under.stderr[-300:]}"
    problems, seen = [], set()
    for leak in under.report["leaks"]:
        size, rest = divmod(leak["bytes"] // leak["count"], MIB)
        if rest != 0 or size > 6:  # the pool's
            continue
        holders = [evidence["symbol"] for evidence in leak["evidence"] if evidence["type"] == "held"]
        wanted = [HELD[size]] if size in HELD else []
        seen.add(size)
        if holders != wanted or (leak["cause"] == "held") != bool(wanted):
            problems.append(f"{size} MiB: {leak['cause']} {holders}, expected {wanted}")
    if seen != {1, 2, 3, 4, 5, 6}:
        problems.append(f"leaks of {sorted(seen)} MiB, expected 1 to 6")
    return "; ".join(problems)


for framework, (module, source) in PROGRAMS.items():
    name = f"addresses that objects keep: {framework}"
    if not installed(module):
        row(SKIP, name, "not installed")
        continue
    try:
        problem = problem_of(source)
        row(FAIL if problem else PASS, name, problem)
    except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
        row(FAIL, name, repr(error))
finish()
