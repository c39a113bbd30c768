#!/usr/bin/env python3
"""Programs that run out of memory: the line that holds most comes first, and the report says what would have fit.

The ways of the subject hog, and PyTorch with a hog in its cache. Half of the GPU's free memory is taken: nothing else
may run meanwhile.
"""
import os
import signal
import sys
import tempfile
from pathlib import Path

from preloaded import FAIL, PASS, SKIP, TREE, finish, installed, row, run

# The line that takes most has the comment "hog". HOG is replaced by a function, END by what follows the failure.
TORCH = """
import torch
torch.zeros(1, device="cuda")
h = torch.cuda.mem_get_info()[0] // 100  # a hundredth of the free memory
u = {"dtype": torch.uint8, "device": "cuda"}
def weights(): return [torch.empty(h * 4, **u) for _ in range(3)]
def activations(): return [torch.empty(h * 2, **u) for _ in range(4)]
HOG
def ask():
    try:
        torch.empty(h * 35, **u)
    except torch.cuda.OutOfMemoryError:
        END
first, most, last = weights(), hog(), activations()
ask()
"""
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
# name: (the function hog, what follows the failure)
TORCH_HOGS = {
    "one": ("def hog(): return torch.empty(h * 45, **u)  # hog", "pass"),
    "list": ("def hog(): return [torch.empty(h * 3, **u) for _ in range(15)]  # hog", "pass"),
    "freed in part": ("def hog():\n"
                      "    all = [torch.empty(h * 3, **u) for _ in range(19)]  # hog\n"
                      "    return all[4:]", "pass"),
    "module": ("class Hog(torch.nn.Module):\n"
               "    def __init__(self):\n"
               "        super().__init__()\n"
               "        self.register_buffer('table', torch.empty(h * 45, **u))  # hog\n"
               "hog = Hog", "pass"),
    "killed": ("def hog(): return [torch.empty(h * 9, **u) for _ in range(5)]  # hog", KILL),
}
# Idle memory in holes that are smaller than the request.
TORCH_HOLES = """
import torch
torch.zeros(1, device="cuda")
free, _ = torch.cuda.mem_get_info()
small = free // 100
def pieces():
    whole = torch.empty(small * 60, dtype=torch.uint8, device="cuda")
    del whole
    return [torch.empty(small * 10, dtype=torch.uint8, device="cuda") for _ in range(6)]
kept = pieces()[::2]
try:
    torch.empty(small * 45, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError:
    pass
"""


def failure_of(result):
    failures = result.report.get("out_of_memory", [])
    if not failures:
        raise RuntimeError(f"no failure in the report; exit code {result.returncode}: {result.stderr[-300:]}")
    return failures[0]


def words(failure):
    lines = "; ".join(f"{line['bytes'] >> 20} MiB {line.get('function')} {Path(line.get('file') or '').name}:"
                      f"{line.get('line')} held by {line.get('held_by')}" for line in failure["lines"][:3])
    return (f"asked {failure['asked_bytes'] >> 20} MiB, memory {failure['memory']}, {lines}; idle {failure['idle']}; "
            f"others at most {failure['other_processes_at_most_bytes']}; {failure['would_fit']}")


def is_hog(line):
    named = [line, *line.get("callers", [])[:1]]
    return any("hog" in (one.get("function") or "").lower() for one in named)


def check(name, command, test, code=0, **environment):
    try:
        result = run(command, **environment)
        failure = failure_of(result)
        right = result.returncode == code and test(failure)
        row(PASS if right else FAIL, f"out of memory: {name}", f"exit code {result.returncode}, {words(failure)}")
    except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
        row(FAIL, f"out of memory: {name}", error)


def check_programs():
    program = TREE / "subjects" / "hog"
    if not program.exists():
        row(SKIP, "out of memory: programs", "not built")
        return
    for way in run([program, "list"], preload=False).stdout.split():
        check(way, [program, way], lambda failure: is_hog(failure["lines"][0]) and failure["missing_bytes"] > 0
              and "would have fit without" in failure["would_fit"]["text"])
    check("killed", [program, "one", "kill"], lambda failure: is_hog(failure["lines"][0]), code=-signal.SIGKILL)


def check_torch():
    if not installed("torch"):
        row(SKIP, "out of memory: PyTorch", "torch is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as folder:
        script = Path(folder) / "train.py"

        def is_hog_line(failure):
            first = failure["lines"][0]
            source = script.read_text().splitlines()
            return first["what"] == "tensors" and source[(first["line"] or 1) - 1].endswith("# hog")

        for name, (hog, end) in TORCH_HOGS.items():
            script.write_text(TORCH.replace("HOG", hog).replace("END", end))
            code = -signal.SIGKILL if end == KILL else 0
            check(f"PyTorch, {name}, with history", [sys.executable, script], is_hog_line, code=code,
                  CULPRIT_TORCH_HISTORY="1")
            check(f"PyTorch, {name}", [sys.executable, script],
                  lambda failure: "most" in (failure["lines"][0].get("held_by") or "")
                  or "Hog" in (failure["lines"][0].get("held_by") or ""), code=code)
        script.write_text(TORCH_HOLES)
        check("PyTorch, holes", [sys.executable, script],
              lambda failure: any(reason["why"] == "holes" for idle in failure["idle"]
                                  for reason in idle.get("reasons", [])))


if __name__ == "__main__":
    os.environ.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    check_programs()
    check_torch()
    finish()
