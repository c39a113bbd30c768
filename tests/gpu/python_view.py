#!/usr/bin/env python3
"""The view from inside PyTorch and CuPy, which the library brings into the interpreter: at the end, when memory ran
out, after an attach, and joined by address with what culprit recorded. No package of culprit is in the programs'
environment. check() and its package come last."""
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from preloaded import CULPRIT, FAIL, LIBRARY, PACKAGE, PASS, SKIP, TREE, finish, installed, row, run

TENSOR = 700 * 1024


def inside(framework, way, pool, **environment):
    """The inside of this framework's pool in the report."""
    finished = run([sys.executable, TREE / "subjects" / "python_holders.py", framework, way], **environment)
    if finished.returncode != 0:
        raise RuntimeError(f"exit code {finished.returncode}: {finished.stderr[-300:]}")
    for cache in finished.report["summary"]["caches"]:
        if cache["pool"] == pool and "inside" in cache:
            return cache["inside"]
    raise RuntimeError(f"nothing from inside the {pool}: {finished.report['summary']['caches']} "
                       f"{finished.report['notes']}")


def torch_losses():
    found = inside("torch", "losses", "PyTorch caching allocator", CULPRIT_TORCH_HISTORY="1")
    first = (found["largest"] or [{}])[0]
    right = (3 * TENSOR <= found["live_bytes"] <= 3 * TENSOR + 4096
             and first.get("held_by") == "`Trainer.losses`, a list of 3"
             and first.get("count") == 3  # the first one, too: it is older than the context
             and Path(first.get("file") or "").name == "python_holders.py")
    return right, f"{found['live_bytes']} live, {found['idle_bytes']} idle, largest: {first}"


def torch_expandable():
    found = inside("torch", "losses", "PyTorch caching allocator", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    first = (found["largest"] or [{}])[0]
    right = (3 * TENSOR <= found["live_bytes"] <= 3 * TENSOR + 4096
             and first.get("held_by") == "`Trainer.losses`, a list of 3")
    return right, (f"{found['live_bytes']} live, {found['idle_bytes']} idle in {len(found['segments'])} segments, "
                   f"largest: {first}")


def torch_traceback():
    found = inside("torch", "traceback", "PyTorch caching allocator")
    held = (found["largest"] or [{}])[0].get("held_by") or ""
    return "failing_step" in held and "traceback of RuntimeError: the loss is NaN" in held, held


def cupy_losses():
    found = inside("cupy", "losses", "CuPy memory pool")
    first = (found["largest"] or [{}])[0]
    right = (3 * TENSOR <= found["live_bytes"] <= 3 * TENSOR + 4096
             and first.get("held_by") == "`Trainer.losses`, a list of 3")
    return right, f"{found['live_bytes']} live, {found['idle_bytes']} idle, largest: {first}"


def views_of(text, *options, code=0, **environment):
    """The views that a program leaves under the library, and its output."""
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as folder:
        variables = dict(os.environ, LD_PRELOAD=str(LIBRARY), CULPRIT_OUT=f"{folder}/%p.dump", CULPRIT_QUIET="1",
                         **environment)
        done = subprocess.run([sys.executable, *options, "-c", text], env=variables, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != code:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-300:]}")
        return [json.loads(path.read_text()) for path in Path(folder).glob("*.python.json")], done.stdout


def holders(view):
    return [held["holders"][0] for held in view["objects"] if held["holders"]]


def live_bytes(view):
    return sum(segment["live_bytes"] for cache in view["caches"] for segment in cache["segments"])


def torch_ran_out():
    """An exception keeps what a step had allocated; the program goes on, and loses it."""
    (view,), out = views_of("""
import gc, torch
def step(size):
    activations = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(4)]
    return torch.empty(size, dtype=torch.uint8, device="cuda"), activations
try:
    step(torch.cuda.get_device_properties(0).total_memory * 2)
except torch.cuda.OutOfMemoryError as error:
    print("caught", type(error).__name__)
gc.collect()
print(torch.cuda.memory_allocated())
""", CULPRIT_TORCH_HISTORY="1")
    then = view.get("ran_out") or {"caches": [], "objects": []}
    lines = {block.get("line") for cache in then["caches"] for segment in cache["segments"]
             for block in segment["blocks"]}
    right = (out.split()[-1] == "0" and view["taken"] == "exit" and live_bytes(view) == 0
             and live_bytes(then) == 4 * (64 << 20) and lines == {4}
             and all("`activations`" in holder and "step" in holder for holder in holders(then)))
    return right, f"then {live_bytes(then)} live at lines {lines}, {holders(then)[:1]}; in the end {out.strip()}"


def torch_ran_out_in_a_thread():
    """The exception is gone when the main thread runs Python code again."""
    (view,), _ = views_of("""
import threading, torch
torch.empty(5, device="cuda")
def step():
    activations = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    return torch.empty(1 << 44, dtype=torch.uint8, device="cuda"), activations
def work():
    try:
        step()
    except torch.cuda.OutOfMemoryError:
        pass
thread = threading.Thread(target=work)
thread.start()
thread.join()
""")
    held = holders(view.get("ran_out") or {"objects": []})
    return any("`activations`" in holder for holder in held), held


def torch_ran_out_uncaught():
    (view,), _ = views_of("""
import torch
def step(size):
    activations = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    return torch.empty(size, dtype=torch.uint8, device="cuda"), activations
step(torch.cuda.get_device_properties(0).total_memory * 2)
""", code=1)
    held = holders(view)
    right = view["taken"] == "exit" and len(held) == 1 and "OutOfMemoryError" in held[0] and "activations" in held[0]
    return right, held


def torch_in_each_mode():
    def of_mode(options):
        (view,), _ = views_of("import torch\nkept = torch.empty(64 << 20, dtype=torch.uint8, device='cuda')", *options)
        return " ".join(options), holders(view), live_bytes(view)
    with ThreadPoolExecutor() as runs:  # each imports PyTorch, which takes 6 s
        details = list(runs.map(of_mode, [(), ("-I",), ("-E",), ("-OO",), ("-X", "dev")]))
    return all(detail[1:] == (["`kept`"], 64 << 20) for detail in details), details


def torch_threads_and_lines_change_nothing():
    """The output with the view is the output without it, and threads have their names."""
    text = """
import sys, threading, torch
before = set(sys.modules)
path = list(sys.path)
kept = []
def work():
    kept.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
thread = threading.Thread(target=work, name="loader of the validation set")
thread.start(); thread.join()
print(sorted(set(sys.modules) - before - {"atexit", "gc"}), sys.path == path, torch.cuda.memory_allocated())
"""
    with_view, without = views_of(text), views_of(text, CULPRIT_PYTHON="0")
    finished = run([sys.executable, "-c", text])
    names = {thread["name"] for group in finished.report["leaks"] for thread in group["threads"]}
    right = (with_view[1] == without[1] and len(with_view[0]) == 1 and not without[0]
             and "loader of the validation set" in names and finished.report["summary"]["view_failures"] == 0)
    return right, f"{with_view[1].strip()}; threads {sorted(names)}"


def torch_attached():
    """The program makes no CUDA call between the attach and its end."""
    program = ("import sys, torch\nkept = torch.empty(64 << 20, dtype=torch.uint8, device='cuda')\n"
               "print('ready', flush=True)\nsys.stdin.readline()\n")
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as folder, subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        attached = subprocess.run([str(CULPRIT), "attach", str(process.pid), "--out", f"{folder}/1.dump"],
                                  capture_output=True, text=True, timeout=120, check=False)
        process.communicate("\n", timeout=120)
        path = Path(folder) / "1.dump.python.json"
        view = json.loads(path.read_text()) if path.exists() else {"objects": [], "caches": []}
        right = process.returncode == 0 and holders(view) == ["`kept`"] and live_bytes(view) == 64 << 20
        return right, f"{holders(view)}, exit code {process.returncode} {attached.stderr[-200:]}"


def torch_check():
    """A tensor that is kept is a leak; idle memory, and cuBLAS's workspace among the tensors, are none."""
    _, out = views_of("""
import culprit, torch
x = torch.ones(512, 512, device="cuda")
kept = []
with culprit.check():
    (x @ x).sum().item()
    torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
try:
    with culprit.check():
        kept.append(torch.empty(500 << 20, dtype=torch.uint8, device="cuda"))
except culprit.LeakError as error:
    print(error.leaked_bytes, str(error).replace("\\n", " "))
""", CULPRIT_COMMAND=str(CULPRIT), PYTHONPATH=str(PACKAGE))
    return out.startswith(f"{500 << 20} leaked 500 MiB held by `kept`, a list of 1  LIVE IN CACHES"), out


def cupy_check():
    _, out = views_of("""
import culprit, cupy
x = cupy.ones((512, 512))
kept = []
with culprit.check():
    float((x @ x).sum())
    cupy.empty(64 << 20, dtype=cupy.uint8)
for device in range(cupy.cuda.runtime.getDeviceCount()):
    try:
        with culprit.check():
            with cupy.cuda.Device(device):
                kept.append(cupy.empty(500 << 20, dtype=cupy.uint8))
    except culprit.LeakError as error:
        print(error.leaked_bytes, str(error).splitlines()[2])
""", CULPRIT_COMMAND=str(CULPRIT), PYTHONPATH=str(PACKAGE))
    lines = out.splitlines()
    return bool(lines) and all(line.startswith(f"{500 << 20} LIVE IN CACHES") for line in lines), out


def cupy_ran_out():
    (view,), _ = views_of("""
import cupy
def step():
    activations = cupy.empty(64 << 20, dtype=cupy.uint8)
    return cupy.empty(1 << 44, dtype=cupy.uint8), activations
try:
    step()
except cupy.cuda.memory.OutOfMemoryError as error:
    kept = error
""")
    held = holders(view)
    return len(held) == 1 and "activations" in held[0] and "ran_out" in view, held


CHECKS = {"inside PyTorch: live, idle and lines": ("torch", torch_losses),
          "inside PyTorch: expandable segments": ("torch", torch_expandable),
          "inside PyTorch: a traceback holds a tensor": ("torch", torch_traceback),
          "inside PyTorch: out of memory": ("torch", torch_ran_out),
          "inside PyTorch: out of memory in a thread": ("torch", torch_ran_out_in_a_thread),
          "inside PyTorch: out of memory, not caught": ("torch", torch_ran_out_uncaught),
          "inside PyTorch: modes of the interpreter": ("torch", torch_in_each_mode),
          "inside PyTorch: threads' names, nothing else changed": ("torch", torch_threads_and_lines_change_nothing),
          "inside PyTorch: after an attach": ("torch", torch_attached),
          "check(): a tensor of PyTorch that is kept": ("torch", torch_check),
          "check(): arrays of CuPy that are kept, on each device": ("cupy", cupy_check),
          "inside CuPy: out of memory": ("cupy", cupy_ran_out),
          "inside CuPy: live and idle": ("cupy", cupy_losses)}

for name, (framework, check) in CHECKS.items():
    if not installed(framework):
        row(SKIP, name, f"{framework} is not installed")
        continue
    try:
        outcome, detail = check()
        row(PASS if outcome else FAIL, name, detail)
    except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
        row(FAIL, name, error)
finish()
