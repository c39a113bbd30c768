#!/usr/bin/env python3
"""The memory that the driver takes for executable graphs: who made it grow, what is in use, and calls without room.

Runs the subject graph_executables: kernels in graphs of 1,000, each of which takes about 110 MiB of an H200.
"""
from preloaded import FAIL, PASS, TREE, finish, row, run

PROGRAM = TREE / "subjects" / "graph_executables"
MIB = 1 << 20
# mode: whether its line grows, executables made in all, most of them at once, live ones at exit
MODES = {
    "per request": (True, 40, 40, 40),
    "destroyed at the end": (True, 40, 40, 0),
    "one at a time": (False, 40, 1, 0),
    "handful": (False, 8, 8, 8),
    "at the start": (False, 40, 40, 40),
}


def facts_of(report):
    balance = next(one for one in report["balances"] if one["moment"] == "exit")
    item = next((one for one in balance["items"] if one["what"] == "graph-executables"), None)
    call_charges = [charge for charge in report["bills"] if charge["what"] == "graph-executables"]
    return balance, item, call_charges


def problems_of(report, expected):
    growing, made, most, live = expected
    balance, item, call_charges = facts_of(report)
    found = []
    if item is None or not call_charges:
        return [f"no memory for executables: {balance['items']}"]
    line = call_charges[0]
    for key, value in (("growing", growing), ("made", made), ("most_live", most), ("live", live)):
        if line[key] != value:
            found.append(f"{key} {line[key]}, not {value}")
    if item["live"] != live:
        found.append(f"{item['live']} live in the balance")
    if live == 0 and item["in_use_at_most_bytes"] != 0:
        found.append("idle memory is called used")
    # None was destroyed before another one was made: the use is known.
    if live == made and not item["in_use_at_least_bytes"] == item["in_use_at_most_bytes"] == item["bytes"]:
        found.append("live executables do not use all of it")
    if most == 1 and line["count"] > made // 4:
        found.append(f"the driver grew {line['count']} times, although each one was destroyed")
    if abs(balance["items"][-1]["bytes"]) > max(16 * MIB, balance["in_use_bytes"] // 100):
        found.append(f"rest {balance['items'][-1]['bytes'] / MIB:.1f} MiB")
    return found


def check_mode(mode, expected):
    name = f"graph executables: {mode}"
    try:
        result = run([PROGRAM, mode])
        if result.returncode != 0:
            row(FAIL, name, f"exit code {result.returncode}: {result.stderr[-300:]}")
            return
        found = problems_of(result.report, expected)
        _, item, call_charges = facts_of(result.report)
        facts = [{key: charge.get(key) for key in ("bytes", "count", "made", "live", "most_live", "growing")}
                 for charge in call_charges]
        row(FAIL if found else PASS, name, f"{'; '.join(found)} {item} {facts}")
    except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
        row(FAIL, name, repr(error))


def check_reused():
    """Two live ones in memory of three that were destroyed, of which the second needed more than there was."""
    name = "graph executables: reused"
    try:
        _, item, call_charges = facts_of(run([PROGRAM, "reused"]).report)
        good = item["live"] == 2 and 0 <= item["in_use_at_least_bytes"] <= item["in_use_at_most_bytes"] == item["bytes"]
        used = [(one["bytes"], one["made"], one["live"]) for one in call_charges]
        row(PASS if good else FAIL, name, f"{item} {used}")
    except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
        row(FAIL, name, repr(error))


def check_without_room():
    name = "graph executables: no room for a graph's memory"
    try:
        result = run([PROGRAM, "no room"])
        failed = [(one["api"], one["code_name"]) for one in result.report["failed_allocations"]]
        explained = [(one["api"], one["would_fit"]["text"]) for one in result.report.get("out_of_memory", [])]
        good = failed == [(result.stdout.strip(), "CUDA_ERROR_OUT_OF_MEMORY")] and len(explained) == 1
        row(PASS if good else FAIL, name, f"{result.stdout.strip()} failed; {failed} {explained}")
    except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
        row(FAIL, name, repr(error))


def main():
    for mode, expected in MODES.items():
        check_mode(mode, expected)
    check_reused()
    check_without_room()
    finish()


main()
