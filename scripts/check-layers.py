#!/usr/bin/env python3
"""Checks that includes follow scripts/layers.txt: scripts/check-layers.py [ROOT]

Prints a line for each include that violates the order, and for each known violation that no longer exists. Exit code 1:
there is such a line.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include "((?:interpose|report)/[^"]+)"', re.MULTILINE)


def read_rules(path):
    """{folder: (program, step)} and the set of known violations."""
    steps, known = {}, set()
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("known: "):
            known.add(line.removeprefix("known: "))
            continue
        program, _, order = line.partition(": ")
        for number, step in enumerate(order.split(" < ")):
            for folder in step.split(", "):
                steps[f"{program}/{folder}"] = (program, number)
    return steps, known


def problems(root):
    steps, known = read_rules(root / "scripts/layers.txt")
    used = set()
    for program in ("interpose", "report"):
        for path in sorted((root / program).rglob("*")):
            folder = path.parent.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cpp", ".c", ".S") or folder == program:
                continue  # main.cpp stands above all folders
            if folder not in steps:
                if not folder.startswith(("interpose/include", "interpose/python")):
                    yield f"{folder}/ is missing in scripts/layers.txt"
                continue
            for name in INCLUDE.findall(path.read_text()):
                other = pathlib.PurePosixPath(name).parent.as_posix()
                if other == folder or other not in steps:
                    continue
                if steps[other][0] != program or steps[other][1] < steps[folder][1]:
                    continue
                row = f"{path.relative_to(root).as_posix()} -> {name}"
                used.add(row)
                if row not in known:
                    yield f"{row}: {folder}/ may not include {other}/ (scripts/layers.txt)"
    for row in sorted(known - used):
        yield f"scripts/layers.txt: not needed any more: known: {row}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    found = list(problems(root))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
