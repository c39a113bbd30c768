#!/usr/bin/env python3
"""Memory of graphs: culprit's leaks are the allocations that the driver itself still counts after a trim.

Each case of the subject graph_memory, with the shared runtime and with NVIDIA's static one. A case leaves one
allocation if its name begins with "leak", else none.
"""
from preloaded import FAIL, PASS, SKIP, TREE, finish, row, run


def check_cases(subject):
    program = TREE / "subjects" / subject
    if not program.exists():
        row(SKIP, f"graph memory: {subject}", "not built: the toolkit has no libcudart_static.a")
        return
    for case in run([program], preload=False).stdout.split():
        label = f"graph memory: {subject} {case}"
        try:
            result = run([program, case])
            leaks = result.report["leaks"]
            launches = [evidence["count"] for leak in leaks for evidence in leak["evidence"]
                        if evidence["type"] == "graph-launch"]
            driver, truth = int(result.stdout), int(case.startswith("leak"))
        except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
            row(FAIL, label, error)
            continue
        found = sum(leak["count"] for leak in leaks if leak["kind"] == "graph-memory")
        right = found == driver == truth and len(leaks) == found and len(launches) == found
        row(PASS if right else FAIL, label, f"driver {driver}; culprit {found}, launches {launches}")


if __name__ == "__main__":
    for name in ("graph_memory", "graph_memory_nvstatic"):
        check_cases(name)
    finish()
