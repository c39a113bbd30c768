#!/usr/bin/env python3
"""Checks that includes follow scripts/layers.txt and form no circle: scripts/check-layers.py [ROOT]

A unit is a header with the source beside it (same name, .h and .cpp or .c). Prints a line for each include that goes
against the order of folders, for each circle of units that scripts/unit_circles.txt does not have, and for each circle
of that file that is none any more. Exit code 1 when there is one.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include "((?:interpose|report)/[^"]+)"', re.MULTILINE)
PROGRAMS = ("interpose", "report")
LAYERS = "scripts/layers.txt"
CIRCLES = "scripts/unit_circles.txt"


def read_rules(path):
    """{folder: (program, step)}."""
    steps = {}
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        program, _, order = line.partition(": ")
        for number, step in enumerate(order.split(" < ")):
            for folder in step.split(", "):
                steps[f"{program}/{folder}"] = (program, number)
    return steps


def sources(root, suffixes):
    """(path below root, names of its includes) of each source of the two programs."""
    for program in PROGRAMS:
        for path in sorted((root / program).rglob("*")):
            if path.suffix in suffixes:
                yield path.relative_to(root), INCLUDE.findall(path.read_text())


def wrong_folders(root):
    steps = read_rules(root / LAYERS)
    for path, names in sources(root, (".h", ".cpp", ".c", ".S")):
        folder = path.parent.as_posix()
        if folder in PROGRAMS:
            continue  # main.cpp stands above all folders
        if folder not in steps:
            if not folder.startswith(("interpose/include", "interpose/kokkos", "interpose/python_package")):
                yield f"{folder}/ is missing in {LAYERS}"
            continue
        for name in names:
            other = pathlib.PurePosixPath(name).parent.as_posix()
            if other == folder or other not in steps:
                continue
            if steps[other][0] != steps[folder][0] or steps[other][1] < steps[folder][1]:
                continue
            yield f"{path.as_posix()} -> {name}: {folder}/ may not include {other}/ ({LAYERS})"


def unit_of(path):
    return path.with_suffix("").as_posix()


def units(root):
    """{unit: the other units whose headers it includes}. A table (.def) is no unit."""
    graph = {}
    for path, names in sources(root, (".h", ".cpp", ".c")):
        headers = {unit_of(pathlib.PurePosixPath(name)) for name in names if name.endswith(".h")}
        graph.setdefault(unit_of(path), set()).update(headers - {unit_of(path)})
    return graph


def reached(graph, start):
    """All units that `start` includes, directly or through others."""
    found, open_ends = set(), [start]
    while open_ends:
        for unit in graph.get(open_ends.pop(), ()):
            if unit not in found:
                found.add(unit)
                open_ends.append(unit)
    return found


def circles(graph):
    """The largest sets of units that all include one another, each a sorted tuple."""
    below = {unit: reached(graph, unit) for unit in graph}
    together = (tuple(sorted(other for other in below[unit] if unit in below.get(other, ()))) for unit in graph)
    return {circle for circle in together if circle}


def read_circles(path):
    """The circles that stay for now: {units: whether a reason stands above}."""
    listed, reason = {}, False
    for line in path.read_text().splitlines() if path.exists() else ():
        if line and not line.startswith("#"):
            listed[tuple(sorted(line.split()))] = reason
        reason = line.startswith("#")
    return listed


def wrong_circles(root):
    listed = read_circles(root / CIRCLES)
    found = circles(units(root))
    for circle in sorted(found - set(listed)):
        yield f"a circle of includes: {' '.join(circle)}"
    for circle, has_reason in listed.items():
        if circle not in found:
            yield f"{CIRCLES}: this is no circle any more, remove it: {' '.join(circle)}"
        elif not has_reason:
            yield f"{CIRCLES}: no reason stands above {' '.join(circle)}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    found = [*wrong_folders(root), *wrong_circles(root)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
