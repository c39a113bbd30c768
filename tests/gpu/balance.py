#!/usr/bin/env python3
"""The balance of a device at exit: what is in use has a name, and the rest is at most 1 % or 16 MiB.

Each workload runs once under the library. The row of a failed one has the whole balance and the calls that made the
driver take memory; with --verbose stderr gets them for each.
"""
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from balance_workloads import MODES, workloads
from preloaded import FAIL, PASS, SKIP, finish, installed, row, run

MIB = 1 << 20
LEAST = 16 * MIB
VERBOSE = "--verbose" in sys.argv

NCCL = """
import torch
parts = [torch.rand(1 << 22, device=f"cuda:{gpu}") for gpu in range(2)]
for _ in range(3): torch.cuda.nccl.all_reduce(parts)
for gpu in range(2): torch.cuda.synchronize(gpu)
"""
# Their largest item: local memory, wherever the driver takes it.
LOCAL = {MODES["stack"], MODES["local"], MODES["graph-local"]}


def mib(number):
    return f"{number / MIB:.1f}"


def place(stack):
    for frame in stack:
        if frame.get("file") and "/" not in (frame.get("function") or ""):
            return f"{frame['function']} {os.path.basename(frame['file'])}:{frame['line']}"
    return " < ".join(f"{frame.get('function')}" for frame in stack[:4])


def explain(name, report, output):
    """Everything that is known about one run, as text."""
    lines = [f"== {name}: {output.strip()[-200:]}"]
    for device in report["devices"]:
        lines.append(f"   memory of GPU {device['ordinal']}: {device['memory']}, live {mib(device['live_bytes'])}")
    for balance in report.get("balances", []):
        parts = ", ".join(f"{item['what']} {mib(item['bytes'])}" for item in balance["items"])
        in_use = mib(balance["in_use_bytes"])
        lines.append(f"   GPU {balance['device']} {balance['moment']}: in use {in_use} = {parts}; "
                     f"{balance['calls_not_measured']} calls not measured, managed {mib(balance['managed_bytes'])}, "
                     f"limits {balance['limits']}")
    for charge in report.get("bills", [])[:40]:
        lines.append(f"   {charge['what']} GPU {charge['device']}: {mib(charge['bytes'])} in {charge['count']} x "
                     f"{charge['api']} at {place(charge['stack'])}")
    for context in report["contexts"]:
        lines.append(f"   context on GPU {context['device']}: {context['kind']} {context['api']} "
                     f"{mib(context['bytes'] or 0)} others {context['others_included']} stray {context['stray']}")
    if VERBOSE:
        print("\n".join(lines), file=sys.stderr, flush=True)
    return "\n".join(lines)


def check(name, command, gpus=1, **environment):
    result = run(command, **environment)
    # A compiler's processes do not use the GPU.
    report = next((report for report in result.reports if report.get("balances")), None) or result.report
    everything = explain(name, report, result.stdout + result.stderr)
    # numba-cuda gives its context back when Python ends: nothing is in use at exit.
    moment = "peak" if report["contexts"] and all(one["ended"] for one in report["contexts"]) else "exit"
    found = {one["device"]: one for one in report.get("balances", []) if one["moment"] == moment}
    for gpu in range(gpus):
        row_name = f"balance: {name}" + (f", GPU {gpu}" if gpus > 1 else "")
        balance = found.get(gpu)
        if result.returncode != 0 or balance is None:
            row(FAIL, row_name, f"exit code {result.returncode}, balance {balance}: {everything}")
            continue
        rest = balance["items"][-1]["bytes"]
        # No workload makes graphs again and again.
        growing = any(charge.get("growing") for charge in report.get("bills", []))
        good = abs(rest) <= max(LEAST, balance["in_use_bytes"] // 100) and not growing
        if name in LOCAL:
            good = good and max(balance["items"], key=lambda item: item["bytes"])["what"] == "local-memory"
        parts = ", ".join(f"{item['what']} {mib(item['bytes'])}" for item in balance["items"])
        row(PASS if good else FAIL, row_name,
            f"{mib(balance['in_use_bytes'])} MiB at {moment} = {parts}" + ("" if good else f" {everything}"))


def check_safely(name, command, gpus=1, **environment):
    """A mistake of this script is a failed row, and the other workloads still run."""
    try:
        check(name, command, gpus, **environment)
    except Exception:  # whatever it is
        row(FAIL, f"balance: {name}", traceback.format_exc())


def check_nccl(path):
    name = "NCCL on two GPUs"
    if not installed("torch"):
        row(SKIP, f"balance: {name}", "torch is not there")
        return
    path.write_text("import sys, torch\nsys.exit(torch.cuda.device_count() < 2)\n")
    if subprocess.run([sys.executable, path], timeout=120).returncode != 0:
        row(SKIP, f"balance: {name}", "there is one GPU")
        return
    path.write_text(NCCL)
    check_safely(name, [sys.executable, path], gpus=2)


def main():
    with tempfile.TemporaryDirectory(prefix="culprit-balance-") as folder:
        for name, command, environment in workloads("balance", folder):
            check_safely(name, command, **environment)
        check_nccl(Path(folder) / "workload.py")
    finish()


main()
