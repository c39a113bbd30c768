#!/usr/bin/env python3
"""Checks that includes follow scripts/layers.txt: scripts/check-layers.py [ROOT]

Prints a line for each include that goes against the order. Exit code 1 when there is one.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include "((?:interpose|report)/[^"]+)"', re.MULTILINE)


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


def problems(root):
    steps = read_rules(root / "scripts/layers.txt")
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
                yield f"{row}: {folder}/ may not include {other}/ (scripts/layers.txt)"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    found = list(problems(root))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
