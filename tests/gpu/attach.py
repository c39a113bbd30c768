#!/usr/bin/env python3
"""culprit attach on a running PyTorch training loop.

A program trains with fixed seeds and prints the loss of every step. It runs three times at once: alone, attached with
the redirection, attached with CUPTI. Each attached run must have the losses of the run alone, step by step, until after
the detach; both back ends must count the same calls of the same batch of cudaMalloc and cudaFree; frees of
earlier memory must be no errors; PyTorch's profiler must see GPU events after the detach, and with the redirection also
before it. With the redirection it is `culprit attach --for`, for ATTACH_SECONDS (30), which must name the survivors of
the batch by their line; with CUPTI, attach and detach, for a tenth of that.
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

SECONDS = float(os.environ.get("ATTACH_SECONDS", "30"))
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

    def wait_until_ready(self):
        self.answer(180)
        return self

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
            errors = "".join(self.errors)[-400:]
            raise RuntimeError(f"the program did not answer in {seconds} s; stderr: {errors}") from None
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


def start(*words):
    environment = dict(os.environ, CULPRIT_LIBRARY=str(LIBRARY), NO_COLOR="1")
    return subprocess.Popen([str(CULPRIT), *map(str, words)], env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(culprit, what, seconds=120):
    """Waits for culprit. Returns what it printed."""
    try:
        out, err = culprit.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        culprit.kill()
        raise RuntimeError(f"{what} did not end in {seconds} s") from None
    if culprit.returncode != 0:
        raise RuntimeError(f"{what}: exit code {culprit.returncode}: {err}")
    return out, err


def cupti_of_toolkit():
    for folder in ("extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib"):
        for file in sorted(Path("/usr/local/cuda").glob(f"{folder}/libcupti.so*")):
            return str(file)
    return None


class Redirected:
    """`culprit attach --for`, which detaches by itself and shows the survivors."""

    def __init__(self, pid, dump):
        self.culprit = start("attach", pid, "--for", f"{SECONDS}s", "--out", dump, "--timeout", "30s")
        self.said = []
        for line in self.culprit.stderr:
            self.said.append(line)
            if line.startswith("recording for"):
                return
        self.culprit.wait()
        raise RuntimeError(f"attach --for: exit code {self.culprit.returncode}: {''.join(self.said)}")

    def detach(self):
        out, _ = end(self.culprit, "attach --for", SECONDS + 60)
        line = next((line for line in out.splitlines() if f" {KEPT}x " in line and "allocate" in line), None)
        row(PASS if "SURVIVORS" in out and line and "batch" in line else FAIL, "survivors of attach --for",
            line or out[-600:])


class Observed:
    """culprit attach --backend cupti, and culprit detach."""

    def __init__(self, pid, dump):
        self.pid, self.began = pid, time.monotonic()
        self.said = end(start("attach", pid, "--backend", "cupti", "--out", dump, "--timeout", "30s"),
                        "attach")[1].splitlines(True)

    def detach(self):
        time.sleep(max(0, self.began + SECONDS / 10 - time.monotonic()))
        end(start("detach", self.pid, "--timeout", "30s"), "detach")


def attached_run(training, backend, dump):
    """Trains with an attach in the middle. Returns how many steps there were at the detach, the report, and what the
    profiler saw meanwhile and afterwards."""
    try:
        started = time.monotonic()
        attached = (Redirected if backend == "redirect" else Observed)(training.process.pid, dump)
        row(PASS, f"attach {backend}", f"{time.monotonic() - started:.2f} s: {attached.said[0].strip()}")
        training.ask(f"batch {CALLS} {KEPT} {SIZE}")
        during = int(training.ask("profile")) if backend == "redirect" else None
        attached.detach()
        training.ask("flush")
        at_detach = len(training.losses)
        afterwards = int(training.ask("profile"))
        training.ask("batch 50 50 777")  # nothing of this may be in the report
        time.sleep(1)
        training.ask("flush")
        steps = len(training.losses) - at_detach
        row(PASS if steps > 0 else FAIL, f"training goes on after {backend}",
            f"{at_detach} steps before the detach, {steps} after it, stderr: {''.join(training.errors)[-200:]}")
    except Exception:
        training.kill()
        raise
    return at_detach, read_report(dump), during, afterwards


def count_calls(backend, report):
    """Calls of the batch as the report has them: made, freed, left."""
    ours = [group for group in report["leaks"] + report.get("library", [])
            if group["bytes"] == KEPT * SIZE and group["count"] == KEPT]
    others = [group for group in report["leaks"] if group["bytes"] == 50 * 777]
    if len(ours) != 1:
        row(FAIL, f"calls counted by {backend}", f"{len(ours)} groups of {KEPT} x {SIZE}: " + json.dumps(
            [(group["api"], group["bytes"], group["count"]) for group in report["leaks"][:8]]))
        return None
    group, summary = ours[0], report["summary"]
    counted = (group["made"], group["freed"], group["count"])
    right = (counted == (CALLS, CALLS - KEPT, KEPT) and not others and summary["errors"] == 0
             and summary["unknown_frees"] >= BEFORE)
    row(PASS if right else FAIL, f"calls counted by {backend}",
        f"made, freed, left: {counted}; api {group['api']}; {summary['errors']} errors; "
        f"{summary['unknown_frees']} frees from before; "
        f"all calls {summary['allocations']} made {summary['frees']} freed; innermost frames "
        + " < ".join(str(frame.get("function")) for frame in group["stack"][:4]))
    return counted


def main():
    if not installed("torch"):
        row(SKIP, "attach", "PyTorch is not installed")
        return
    if "CULPRIT_CUPTI" not in os.environ and cupti_of_toolkit():
        os.environ["CULPRIT_CUPTI"] = cupti_of_toolkit()
    # At once: most of the time that each takes is PyTorch's start, and waiting.
    alone, trainings = Training(), {"redirect": Training(), "cupti": Training()}
    alone.wait_until_ready()
    profiled_alone = int(alone.ask("profile"))
    counted, ended = {}, {}
    for backend, training in trainings.items():
        with tempfile.TemporaryDirectory(prefix="culprit-attach-") as folder:
            try:
                training.wait_until_ready()
                at_detach, report, during, afterwards = attached_run(training, backend, f"{folder}/x.dump")
                ended[backend] = at_detach
            except Exception as error:  # one run tells all: the other back end is tried in any case
                row(FAIL, f"attach {backend}", error)
                continue
        row(PASS if afterwards == profiled_alone else FAIL, f"profiler after {backend}",
            f"{afterwards} GPU events after the detach, {profiled_alone} without culprit")
        if during is not None:
            row(PASS if during == profiled_alone else FAIL, f"profiler beside {backend}",
                f"{during} GPU events while attached, {profiled_alone} without culprit")
        counted[backend] = count_calls(backend, report)
        span = (report["recording"]["spans"] or [{}])[0]
        # The thread that attaches reads where it has a context, else the first allocation does.
        row(PASS if span.get("read") in ("begin", "first allocation") and span["used_bytes"] > 0 else FAIL,
            f"memory in use at the attach with {backend}", span)
    longest = max(ended.values(), default=0)
    for _ in range(100):  # the others may have been a little faster
        alone.ask("flush")
        if len(alone.losses) > longest + 10:
            break
        time.sleep(0.1)
    alone.end()
    for backend, at_detach in ended.items():
        training = trainings[backend]
        code = training.end()
        steps = min(len(training.losses), len(alone.losses))
        different = next((number for number in range(steps) if training.losses[number] != alone.losses[number]), None)
        row(PASS if code == 0 and different is None and steps > max(100, at_detach) else FAIL,
            f"same losses with {backend}",
            f"{steps} steps compared, {at_detach} of them before the detach, exit code {code}"
            + ("" if different is None else f", step {different} differs"))
    if len(counted) == 2:
        row(PASS if counted["redirect"] is not None and counted["redirect"] == counted["cupti"] else FAIL,
            "both back ends count the same calls", counted)


if __name__ == "__main__":
    main()
    finish()
