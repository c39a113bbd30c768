#!/usr/bin/env python3
"""Python frames against traceback.extract_stack(), taken at the same place, in 1,000 random stacks on the GPU."""
import json
import platform
import sys
from collections import defaultdict

from preloaded import FAIL, PASS, SKIP, TREE, finish, groups, row, run


def main():
    name = f"python frames: {platform.python_implementation()} {platform.python_version()}"
    finished = run([sys.executable, TREE / "subjects" / "python_stacks.py", "1000", "1"], CULPRIT_DEPTH="256")
    if finished.returncode != 0:
        row(FAIL, name, f"exit code {finished.returncode}: {finished.stderr[-300:]}")
        return
    unknown = [note for note in finished.report["notes"] if note.startswith("no Python lines: culprit reads")]
    if unknown:
        row(SKIP, name, unknown[0])
        return
    expected, ours = defaultdict(lambda: [0, 0]), defaultdict(lambda: [0, 0])
    for made in json.loads(finished.stdout):
        of_stack = expected[tuple(tuple(line) for line in made["stack"])]
        of_stack[0] += made["bytes"]
        of_stack[1] += 1
    for group in groups(finished.report):
        if not group["api"].startswith("cuMemAlloc"):
            continue
        of_stack = ours[tuple((frame["file"], frame["line"], frame["function"].rpartition(".")[2])
                              for frame in group["stack"]
                              if frame["language"] == "python")]
        of_stack[0] += group["bytes"]
        of_stack[1] += group["count"]
    differing = [stack for stack in set(expected) | set(ours) if expected.get(stack) != ours.get(stack)]
    allocations = sum(count for _, count in expected.values())
    detail = f"{allocations} allocations from {len(expected)} stacks, {len(differing)} differ"
    row(FAIL if differing else PASS, name, detail + "".join(f"; {stack}" for stack in differing[:1]))


if __name__ == "__main__":
    main()
    finish()
