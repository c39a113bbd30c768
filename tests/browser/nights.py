"""A history of culprit-nightly, as if its commands had run for many nights."""
import datetime
import json


def leak(number, size):
    return {"id": f"{number:016x}", "bytes": size, "count": number, "kind": "device", "cause": "never-freed",
            "api": "cudaMalloc", "where": "Solver<double>::step in train", "comment": "", "state": "known"}


def result(name, leaks, **more):
    leaked = sum(one["bytes"] for one in leaks)
    found = {"name": name, "command": f"./{name}", "exit_code": 0, "seconds": 1.2, "leaks": leaks, "new": 0, "grown": 0,
             "gone": 0, "processes": 1, "leaked_bytes": leaked, "leaked_allocations": len(leaks), "cached_bytes": 0,
             "errors": 0, "gate": 0, "verdict": "green", "reasons": [], "page": None, "dumps": []}
    return {**found, **more}


def write_nights(folder, count):
    """Nights until some time in September 2026, of the commands "leaks" and "fails"."""
    folder.mkdir(parents=True)
    first = datetime.datetime(2026, 9, 1, 2, 0) - datetime.timedelta(days=count)
    for number in range(count):
        date = (first + datetime.timedelta(days=number)).isoformat(timespec="milliseconds") + "Z"
        known = [leak(1, 1 << 30), leak(2, 1000 * (number + 1))]
        if number % 7 == 3:
            fails = {"exit_code": 1, "unknown": True, "verdict": "red", "gate": None,
                     "reasons": ["exit status 1", "nothing was recorded"]}
            commands = [result("leaks", known), result("fails", [], **fails)]
        else:
            commands = [result("leaks", known), result("fails", known[1:])]
        night = {"schema": "culprit.night/1", "date": date, "host": "node7", "revision": f"v1-{number}",
                 "commands": commands}
        (folder / (date.replace(":", "-") + ".json")).write_text(json.dumps(night), encoding="utf-8")
