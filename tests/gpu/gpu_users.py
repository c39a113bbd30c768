#!/usr/bin/env python3
"""NVML's figures: for a process that runs, beside its balance, and for other processes when memory ran out.

In a container NVML may name no process, or other numbers; the reports must then say so.
"""
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from preloaded import CULPRIT, FAIL, LIBRARY, PASS, SKIP, TREE, compiled, finish, row

MIB = 1 << 20
LEAST = 16 * MIB  # of the rest, or 1 %
GIB = 2  # that the program allocates
NAMES = ("doctor: balance and NVML's figure", "top: balance and NVML's figure", "out of memory: other processes",
         "out of memory: NVML's figure for the process itself")


def culprit(*words):
    result = subprocess.run([str(CULPRIT), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=120)
    return result.stdout, result.stderr


def check_doctor(pid):
    diagnosis = json.loads(culprit("doctor", "--format", "json")[0])
    insides = [holder["inside"] for gpu in diagnosis["gpus"] for holder in gpu["holders"]
               if holder["pid"] == pid and holder["inside"]]
    balances = [inside["balance"] for inside in insides if inside.get("balance")]
    if not balances:
        return row(SKIP if not insides else FAIL, NAMES[0], f"no balance of {pid}: {diagnosis['unseen']} {insides}")
    balance = balances[0]
    if balance["process_bytes"] is None:
        return row(SKIP, NAMES[0], balance["problem"])
    rest = balance["items"][-1]["bytes"]
    right = abs(rest) <= max(LEAST, balance["process_bytes"] // 100)
    return row(PASS if right else FAIL, NAMES[0],
               f"NVML {balance['process_bytes'] / MIB:.1f} MiB, explained {balance['explained_bytes'] / MIB:.1f} MiB: "
               + ", ".join(f"{item['what']} {item['bytes'] / MIB:.1f}" for item in balance["items"]))


def check_top(pid):
    text = culprit("top", pid)[0]
    line = next((line.strip() for line in text.splitlines() if "the balance explains" in line), text)
    if "is not known" in line:
        return row(SKIP, NAMES[1], line)
    return row(PASS if "NVML says" in line else FAIL, NAMES[1], line)


def check_out_of_memory(pid):
    hog = TREE / "subjects" / "hog"
    if not hog.exists():
        for name in NAMES[2:]:
            row(SKIP, name, "not built")
        return None
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as folder:
        process = subprocess.Popen([str(CULPRIT), "run", "--out", f"{folder}/%p.dump", "-o", f"{folder}/report.json",
                                    "--format", "json", "--", str(hog), "one", "wait"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        end = time.monotonic() + 20
        while not list(Path(folder).glob("*.gpu.json")) and time.monotonic() < end:
            time.sleep(0.1)
        process.communicate(timeout=60)
        report = json.loads(Path(folder, "report.json").read_text())
    report = report["reports"][0] if "reports" in report else report
    failure = report["out_of_memory"][0]
    nvml, others = failure["nvml"], failure["other_processes"]
    if nvml is None:
        return row(FAIL, NAMES[2], f"NVML was not asked: {failure['would_fit']}")
    if nvml["problem"] or nvml["foreign_pids"] or not others:
        row(SKIP, NAMES[2], nvml["problem"] or f"no process, or numbers of another namespace: {others}")
    else:
        large = [one for one in others if one["pid"] == pid and (one["bytes"] or 0) >= GIB << 30]
        row(PASS if large else FAIL, NAMES[2], f"{(nvml['time_ns'] - failure['time_ns']) / 1e6:.0f} ms after: {others}")
    if nvml["process_bytes"] is None:
        row(SKIP, NAMES[3], "it had ended" if nvml["after_end"] else nvml["problem"] or "NVML does not list it")
    else:
        right = nvml["process_bytes"] >= failure["live_bytes"]
        row(PASS if right else FAIL, NAMES[3], f"{nvml['process_bytes']} bytes, {failure['live_bytes']} live")
    return None


def main():
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as folder:
        variables = dict(os.environ, LD_PRELOAD=str(LIBRARY), CULPRIT_OUT=f"{folder}/%p.dump", CULPRIT_QUIET="1")
        holder = subprocess.Popen([str(compiled("ghost")), str(GIB)], env=variables, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        words = holder.stdout.readline().split()
        if len(words) != 4 or words[0] != "ready":
            holder.stdin.close()
            holder.wait()
            return row(FAIL, NAMES[0], f"the program did not start: {holder.stderr.read()[-300:]}")
        try:
            for check in (check_doctor, check_top, check_out_of_memory):
                try:
                    check(holder.pid)
                except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
                    row(FAIL, check.__name__, repr(error))
        finally:
            holder.stdin.close()
            holder.kill()
            holder.wait()
            try:
                os.kill(int(words[2]), 9)
            except ProcessLookupError:
                pass
    return None


if __name__ == "__main__":
    main()
    finish()
