#!/usr/bin/env python3
"""culprit attach on a running PyTorch training loop.

A program trains with fixed seeds and prints the loss of every step. It runs three times: alone, attached with the redirection, attached with
CUPTI. Each attached run must have the losses of the run alone, step by step; both back ends must count the same calls of the same batch of
cudaMalloc and cudaFree; frees of what was there before must be no errors; PyTorch's profiler must see GPU events after the detach, and with
the redirection also before it. ATTACH_SECONDS (12) is how long each stays attached.
"""
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from preloaded import CULPRIT, FAIL, LIBRARY, PASS, SKIP, finish, installed, read_report, row

SECONDS = float(os.environ.get("ATTACH_SECONDS", "12"))
CALLS, KEPT, BEFORE, SIZE = 1000, 10, 100, 11001

PROGRAM = r"""
import ctypes, os, sys, threading, time
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
generator = torch.Generator(device="cuda").manual_seed(1)
lock = threading.Lock()
stop = threading.Event()

def step():
    data = torch.randn(128, 256, device="cuda", generator=generator)
    loss = model(data).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    return loss.item()

path = next(line.split()[-1] for line in open("/proc/self/maps") if "/libcudart" in line)
runtime = ctypes.CDLL(path)

def allocate(size):
    pointer = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
    return pointer

def free(pointer):
    assert runtime.cudaFree(pointer) == 0

kept, before = [], []

def batch(calls, keep, size):
    for number in range(calls):
        pointer = allocate(size)
        if number < keep: kept.append(pointer)
        else: free(pointer)
    for pointer in before: free(pointer)
    before.clear()

def profile():
    from torch.profiler import ProfilerActivity, profile as profiled
    with profiled(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as result:
        for _ in range(3):
            torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
        torch.cuda.synchronize()
    return sum(1 for event in result.events() if event.device_type == torch.autograd.DeviceType.CUDA)

def commands():
    for line in sys.stdin:
        words = line.split()
        with lock:
            torch.cuda.set_device(0)
            answer = "done"
            if words[0] == "batch": batch(*map(int, words[1:]))
            if words[0] == "profile": answer = str(profile())
        print("answer", answer, flush=True)
    stop.set()

for _ in range(int(sys.argv[2])): before.append(allocate(int(sys.argv[1])))
for _ in range(20): print("loss", step().hex())
threading.Thread(target=commands, daemon=True).start()
print("answer ready", flush=True)
while not stop.is_set():
    with lock:
        print("loss", step().hex())
    time.sleep(0.001)
print("answer end", flush=True)
"""


class Training:
    """The running program: sends commands, collects losses."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(SIZE), str(BEFORE)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.losses, self.answers, self.errors = [], queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()
        self.answer(180)

    def read(self):
        for line in self.process.stdout:
            kind, value = line.split(maxsplit=1)
            if kind == "loss":
                self.losses.append(value.strip())
            else:
                self.answers.put(value.strip())
        self.answers.put("end of output")

    def answer(self, seconds=60):
        try:
            value = self.answers.get(timeout=seconds)
        except queue.Empty:
            raise RuntimeError(f"the program did not answer in {seconds} s; stderr: {''.join(self.errors)[-400:]}") from None
        if value == "end of output":
            raise RuntimeError(f"the program ended with {self.process.wait()}: {''.join(self.errors)[-400:]}")
        return value

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.answer()
        return self.process.wait(timeout=60)

    def kill(self):
        self.process.kill()
        self.process.wait()


def command(*words):
    environment = dict(os.environ, CULPRIT_LIBRARY=str(LIBRARY), NO_COLOR="1")
    started = time.monotonic()
    result = subprocess.run([str(CULPRIT), *map(str, words)], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=120)
    return result, time.monotonic() - started


def cupti_of_toolkit():
    for folder in ("extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib"):
        for file in sorted(Path("/usr/local/cuda").glob(f"{folder}/libcupti.so*")):
            return str(file)
    return None


def attached_run(backend, dump):
    """Trains with an attach in the middle. Returns the losses, the report, and what the profiler saw meanwhile and afterwards."""
    training = Training()
    pid = training.process.pid
    try:
        time.sleep(1)
        attached, seconds = command("attach", pid, "--backend", backend, "--out", dump, "--timeout", "30s")
        if attached.returncode != 0:
            raise RuntimeError(f"attach: exit code {attached.returncode}: {attached.stderr}")
        row(PASS, f"attach {backend}", f"{seconds:.2f} s: {attached.stderr.splitlines()[0]}")
        training.ask(f"batch {CALLS} {KEPT} {SIZE}")
        during = int(training.ask("profile")) if backend == "redirect" else None
        time.sleep(SECONDS)
        detached, seconds = command("detach", pid, "--timeout", "30s")
        if detached.returncode != 0:
            raise RuntimeError(f"detach: exit code {detached.returncode}: {detached.stderr}")
        row(PASS, f"detach {backend}", f"{seconds:.2f} s")
        at_detach = len(training.losses)
        afterwards = int(training.ask("profile"))
        training.ask("batch 50 50 777")  # nothing of this may be in the report
        time.sleep(2)
        steps = len(training.losses) - at_detach
        code = training.end()
        row(PASS if code == 0 and steps > 0 else FAIL, f"training goes on after {backend}",
            f"{steps} steps after the detach, exit code {code}, stderr: {''.join(training.errors)[-200:]}")
    except Exception:
        training.kill()
        raise
    return training.losses, read_report(dump), during, afterwards


def count_calls(backend, report):
    """Calls of the batch as the report has them: made, freed, left."""
    ours = [group for group in report["leaks"] + report.get("library", []) if group["bytes"] == KEPT * SIZE and group["count"] == KEPT]
    others = [group for group in report["leaks"] if group["bytes"] == 50 * 777]
    if len(ours) != 1:
        row(FAIL, f"calls counted by {backend}", f"{len(ours)} groups of {KEPT} x {SIZE}: " + json.dumps(
            [(group["api"], group["bytes"], group["count"]) for group in report["leaks"][:8]]))
        return None
    group, summary = ours[0], report["summary"]
    counted = (group["made"], group["freed"], group["count"])
    right = counted == (CALLS, CALLS - KEPT, KEPT) and not others and summary["errors"] == 0 and summary["unknown_frees"] >= BEFORE
    row(PASS if right else FAIL, f"calls counted by {backend}",
        f"made, freed, left: {counted}; api {group['api']}; {summary['errors']} errors; {summary['unknown_frees']} frees from before; "
        f"all calls {summary['allocations']} made {summary['frees']} freed; innermost frames "
        + " < ".join(str(frame.get("function")) for frame in group["stack"][:4]))
    return counted


def main():
    if not installed("torch"):
        row(SKIP, "attach", "PyTorch is not installed")
        return
    alone = Training()
    time.sleep(3)
    profiled_alone = int(alone.ask("profile"))
    time.sleep(SECONDS + 8)
    alone.end()
    counted = {}
    for backend in ("redirect", "cupti"):
        if backend == "cupti" and "CULPRIT_CUPTI" not in os.environ and cupti_of_toolkit():
            os.environ["CULPRIT_CUPTI"] = cupti_of_toolkit()
        with tempfile.TemporaryDirectory(prefix="culprit-attach-") as folder:
            try:
                losses, report, during, afterwards = attached_run(backend, f"{folder}/x.dump")
            except Exception as error:  # one run tells all: the other back end is tried in any case
                row(FAIL, f"attach {backend}", error)
                continue
        steps = min(len(losses), len(alone.losses))
        different = next((number for number in range(steps) if losses[number] != alone.losses[number]), None)
        row(PASS if different is None and steps > 100 else FAIL, f"same losses with {backend}",
            f"{steps} steps compared" + ("" if different is None else f", step {different} differs"))
        row(PASS if afterwards == profiled_alone else FAIL, f"profiler after {backend}",
            f"{afterwards} GPU events after the detach, {profiled_alone} without culprit")
        if during is not None:
            row(PASS if during == profiled_alone else FAIL, f"profiler beside {backend}",
                f"{during} GPU events while attached, {profiled_alone} without culprit")
        counted[backend] = count_calls(backend, report)
    if len(counted) == 2:
        row(PASS if counted["redirect"] is not None and counted["redirect"] == counted["cupti"] else FAIL,
            "both back ends count the same calls", counted)


if __name__ == "__main__":
    main()
    finish()
