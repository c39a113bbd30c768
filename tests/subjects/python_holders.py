#!/usr/bin/env python3
"""Keeps tensors in the ways in which programs keep tensors. Runs with the stand-ins for PyTorch and CuPy
(python_fakes), or with those themselves.

    python_holders.py torch|cupy losses|traceback|uncaught|global|closure|running|snapshot|ran_out

The exit handlers run, then the process ends at once, so that the interpreter's end frees nothing.
Only "uncaught" ends like an ordinary program.
"""
import atexit
import ctypes
import importlib
import os
import sys

SIZE = 700 * 1024
errors = []


class Trainer:
    def __init__(self):
        self.losses = []

    def step(self, make):
        self.losses.append(make())


def failing_step(make):
    activations = make()
    assert activations is not None
    raise RuntimeError("the loss is NaN")


def with_closure(make):
    kept = make()
    return lambda: kept


def running_step(make):
    scratch = make()
    atexit._run_exitfuncs()
    os._exit(0 if scratch is not None else 1)


def fill(make):
    activations = make()
    pointer = ctypes.c_uint64()
    assert framework.cuda._driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 50)) == 2
    raise MemoryError(activations)


def main(way, make):
    if way == "losses":
        trainer = Trainer()
        for _ in range(3):
            trainer.step(make)
        globals()["trainer"] = trainer
    elif way == "traceback":
        try:
            failing_step(make)
        except RuntimeError as error:
            errors.append(error)
    elif way == "uncaught":
        failing_step(make)
    elif way == "closure":
        globals()["callback"] = with_closure(make)
    elif way == "running":
        running_step(make)
    elif way == "ran_out":
        try:
            fill(make)
        except MemoryError:
            pass
    elif way == "snapshot":
        import culprit

        globals()["activations"] = make()
        culprit.snapshot(os.environ["SNAPSHOT"], referrers=True)
        globals()["activations"] = None
    else:
        globals()["cache"] = make()


framework = importlib.import_module(sys.argv[1])
arguments = {} if "fake" in framework.__version__ else {"dtype": framework.uint8}
if sys.argv[1] == "torch" and arguments:
    arguments["device"] = "cuda"
main(sys.argv[2], lambda: framework.empty(SIZE, **arguments))
atexit._run_exitfuncs()
os._exit(0)
