#!/usr/bin/env python3
"""Kernel launches cost the same with and without the library; the cost of an allocation is printed beside it.

Both are measured alternately and the best of each is compared: a disturbance of a run only makes it slower. As long as
they differ, both are measured again.
"""
import re
import sys
from pathlib import Path

from preloaded import FAIL, PASS, compiled, finish, row, run

ROUNDS, MOST_ROUNDS = 5, 25
NOISE = 0.05  # two runs of the same program differ by less


def measure(program, preload):
    finished = run([program], preload=preload)
    match = re.search(r"launch_ns=([0-9.]+) pair_ns=([0-9.]+)", finished.stdout)
    if finished.returncode != 0 or not match:
        raise RuntimeError(f"{program}: exit code {finished.returncode}: {finished.stderr}")
    return float(match[1]), float(match[2])


def main():
    program = Path(sys.argv[1]) if len(sys.argv) > 1 else compiled("launch_cost")
    plain, under = [], []
    for done in range(MOST_ROUNDS):
        if done >= ROUNDS and min(under)[0] < (1 + NOISE) * min(plain)[0]:
            break
        plain.append(measure(program, preload=False))
        under.append(measure(program, preload=True))
    launch_plain, pair_plain = (min(values) for values in zip(*plain))
    launch_under, pair_under = (min(values) for values in zip(*under))
    ratio = launch_under / launch_plain
    row(PASS if ratio < 1 + NOISE else FAIL, "kernel launch, with / without",
        f"{launch_under:.0f} / {launch_plain:.0f} ns = {ratio:.3f}; cuMemAllocAsync + cuMemFreeAsync "
        f"{pair_under:.0f} / {pair_plain:.0f} ns = +{pair_under - pair_plain:.0f} ns a pair")


if __name__ == "__main__":
    main()
    finish()
