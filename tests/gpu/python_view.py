#!/usr/bin/env python3
"""The view from inside PyTorch and CuPy, written by the Python package at the end, joined by address with what culprit
recorded."""
import sys
from pathlib import Path

from preloaded import FAIL, PACKAGE, PASS, SKIP, TREE, finish, installed, row, run

TENSOR = 700 * 1024
# As if the package were installed: its .pth file is read.
INSTALLED = ("import runpy, site, sys\n"
             f"site.addsitedir({str(PACKAGE)!r})\n"
             "sys.argv = sys.argv[1:]\n"
             "runpy.run_path(sys.argv[0], run_name='__main__')\n")


def inside(framework, way, pool, **environment):
    """The inside of this framework's pool in the report."""
    finished = run([sys.executable, "-c", INSTALLED, TREE / "subjects" / "python_holders.py", framework, way],
                   **environment)
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


CHECKS = {"inside PyTorch: live, idle and lines": ("torch", torch_losses),
          "inside PyTorch: expandable segments": ("torch", torch_expandable),
          "inside PyTorch: a traceback holds a tensor": ("torch", torch_traceback),
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
