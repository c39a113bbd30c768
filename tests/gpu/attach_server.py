#!/usr/bin/env python3
"""culprit attach and detach, again and again, on Python programs that serve requests on the GPU.

Each server has four threads, which answer requests of four clients over a socket: a request names a number, the answer
is a sum that the GPU computed with it, and the client knows it beforehand. Meanwhile culprit attaches and detaches for
ATTACH_CYCLES (10) times. While it is attached, an order makes the server leak one allocation of a size that no other
cycle has; the report must name it once, with the line of the function that leaks, and none of an earlier cycle.
No request may fail, be answered wrongly or wait longer than ATTACH_LONGEST_ANSWER (5) seconds.

A row for PyTorch, PyCUDA, CuPy, and for plain calls of the CUDA runtime, which needs no package and runs with the
simulated driver, too.
"""
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from preloaded import CULPRIT, FAIL, LIBRARY, PASS, SKIP, finish, installed, read_report, row

CYCLES = int(os.environ.get("ATTACH_CYCLES", "10"))
LONGEST_ANSWER = float(os.environ.get("ATTACH_LONGEST_ANSWER", "5"))
CLIENTS = 4
FIRST_LEAK = 30001  # bytes; each cycle leaks one more than the one before

# The code of each framework for a request and for a leak. `answer` returns the sum of the 256 numbers from n on.
FRAMEWORKS = {
    "torch": """
import torch
torch.zeros(1, device="cuda")
def answer(n):
    return int((torch.arange(256, device="cuda", dtype=torch.int64) + n).sum().item())
runtime = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "/libcudart" in line))
""",
    "pycuda": """
import pycuda.driver as driver
import numpy
driver.init()
context = driver.Device(0).retain_primary_context()
def prepare():
    context.push()
def leave():
    context.pop()  # PyCUDA ends the program when a thread ends with one
def answer(n):
    numbers = numpy.arange(256, dtype=numpy.int64) + n
    memory = driver.mem_alloc(numbers.nbytes)
    driver.memcpy_htod(memory, numbers)
    back = numpy.empty_like(numbers)
    driver.memcpy_dtoh(back, memory)
    memory.free()
    return int(back.sum())
kept = []
def leak_here(size):
    kept.append(driver.mem_alloc(size))
""",
    "cupy": """
import cupy
cupy.zeros(1)
def answer(n):
    return int((cupy.arange(256, dtype=cupy.int64) + n).sum())
kept = []
def leak_here(size):
    kept.append(cupy.cuda.runtime.malloc(size))
""",
    "plain": """
runtime = ctypes.CDLL("libcudart.so.13")
def answer(n):
    numbers = (ctypes.c_int64 * 256)(*range(n, n + 256))
    back = (ctypes.c_int64 * 256)()
    memory = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(2048)) == 0
    assert runtime.cudaMemcpy(memory, numbers, ctypes.c_size_t(2048), 1) == 0
    assert runtime.cudaMemcpy(back, memory, ctypes.c_size_t(2048), 2) == 0
    assert runtime.cudaFree(memory) == 0
    return sum(back)
""",
}
SERVER = """
import ctypes, socket, sys, threading
def prepare():
    pass
def leave():
    pass
def leak_here(size):
    pointer = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
{framework}
def serve(connection):
    prepare()
    for line in connection.makefile("r"):
        word, number = line.split()
        if word == "leak":
            leak_here(int(number))
            connection.sendall(b"done\\n")
        else:
            connection.sendall(b"%d\\n" % answer(int(number)))
    leave()
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
prepare()
answer(1)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


class Client(threading.Thread):
    """Asks until it is stopped, and checks each answer."""

    def __init__(self, address, first):
        super().__init__(daemon=True)
        self.address, self.number = address, first
        self.stop, self.answers, self.slowest, self.problem = threading.Event(), 0, 0.0, None

    def run(self):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(LONGEST_ANSWER)
                connection.connect(self.address)
                lines = connection.makefile("r")
                while not self.stop.is_set():
                    self.number += 1
                    began = time.monotonic()
                    connection.sendall(b"sum %d\n" % self.number)
                    got, wanted = int(lines.readline()), sum(range(self.number, self.number + 256))
                    self.slowest = max(self.slowest, time.monotonic() - began)
                    self.answers += 1
                    if got != wanted:
                        raise RuntimeError(f"{got} instead of {wanted}")
        except (OSError, ValueError, RuntimeError) as error:
            self.problem = f"request {self.answers}: {type(error).__name__}: {error}"


def culprit(*words):
    """Runs culprit. Returns its seconds and the milliseconds for which it stopped a thread."""
    began = time.monotonic()
    done = subprocess.run([str(CULPRIT), *map(str, words)], env=dict(os.environ, CULPRIT_LIBRARY=str(LIBRARY),
                          NO_COLOR="1"), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"culprit {words[0]}: exit code {done.returncode}: {done.stderr[-400:]}")
    stop = re.search(r"for at most ([0-9.]+) (us|ms|s)\b", done.stderr)
    factor = {"us": 0.001, "ms": 1, "s": 1000}
    return time.monotonic() - began, float(stop[1]) * factor[stop[2]] if stop else 0.0


def one_cycle(pid, ask_to_leak, dump, size):
    """Returns the seconds of the attach and of the detach, and the longest stop."""
    attach, first_stop = culprit("attach", pid, "--out", dump, "--timeout", "30s")
    ask_to_leak(size)
    time.sleep(0.2)  # requests are recorded
    detach, second_stop = culprit("detach", pid, "--timeout", "30s")
    report = read_report(dump)
    os.unlink(dump)
    leaks = [group for group in report["leaks"] if FIRST_LEAK <= group["bytes"] < FIRST_LEAK + CYCLES]
    functions = {frame.get("function") for group in leaks for frame in group["stack"]}
    if [(group["bytes"], group["count"]) for group in leaks] != [(size, 1)] or "leak_here" not in functions:
        raise RuntimeError(f"leaked {size} bytes, the report has "
                           f"{[(group['bytes'], group['count'], group['api']) for group in report['leaks']][:8]}, "
                           f"functions {sorted(map(str, functions))[:8]}")
    if report["summary"]["errors"] != 0:
        raise RuntimeError(f"{report['summary']['errors']} errors in the report")
    return attach, detach, max(first_stop, second_stop)


def check(name, folder):
    address = f"{folder}/socket"
    program = Path(folder) / "serve.py"
    program.write_text(SERVER.replace("{framework}", FRAMEWORKS[name]))
    server = subprocess.Popen([sys.executable, str(program), address], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    clients, times, problem = [], [], None
    try:
        if server.stdout.readline() != "ready\n":
            raise RuntimeError("the server did not start")
        clients = [Client(address, 1000 * i) for i in range(CLIENTS)]
        for client in clients:
            client.start()
        with socket.socket(socket.AF_UNIX) as orders:
            orders.settimeout(30)
            orders.connect(address)

            def ask_to_leak(size):
                orders.sendall(b"leak %d\n" % size)
                if orders.recv(100) != b"done\n":
                    raise RuntimeError("the server did not leak")

            for cycle in range(CYCLES):
                times.append(one_cycle(server.pid, ask_to_leak, f"{folder}/x.dump", FIRST_LEAK + cycle))
                broken = next((client.problem for client in clients if client.problem), None)
                if broken or server.poll() is not None:
                    raise RuntimeError(broken or f"the server ended with {server.returncode}")
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        problem = f"cycle {len(times) + 1} of {CYCLES}: {error}"
    for client in clients:
        client.stop.set()
    for client in clients:
        client.join(LONGEST_ANSWER + 1)
        problem = problem or client.problem
    server.kill()
    errors = server.communicate()[1]
    answers = sum(client.answers for client in clients)
    if not problem and answers < CLIENTS:
        problem = "no requests were answered"
    detail = f"{len(times)} cycles, {answers} answers"
    if clients:
        detail += f", the slowest in {1000 * max(client.slowest for client in clients):.0f} ms"
    if times:
        attach, detach, stops = zip(*times)
        detail += (f"; attach {statistics.median(attach):.2f} s (at most {max(attach):.2f}), detach "
                   f"{statistics.median(detach):.2f} s (at most {max(detach):.2f}), stops of "
                   f"{statistics.median(stops):.1f} ms (at most {max(stops):.1f})")
    if problem:
        detail = f"{problem}; {detail}; stderr: {errors[-300:]}"
    row(FAIL if problem else PASS, f"{name} serves while attached and detached", detail)


def main():
    wanted = os.environ.get("ATTACH_FRAMEWORKS", " ".join(FRAMEWORKS)).split()
    for name in wanted:
        title = f"{name} serves while attached and detached"
        if name != "plain" and not installed("pycuda.driver" if name == "pycuda" else name):
            row(SKIP, title, f"{name} is not installed")
            continue
        with tempfile.TemporaryDirectory(prefix="culprit-server-") as folder:
            check(name, folder)


if __name__ == "__main__":
    main()
    finish()
