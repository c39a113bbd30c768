#!/usr/bin/env python3
"""Measures the cost of culprit. scripts/bench.sh builds the programs and passes its options to this script.

Every measurement runs its sides in turn (nothing, culprit, ..., nothing, culprit, ...), so that other work of the
machine affects all sides alike. One run of a program gives a sample to each row of its measurement. Where the effect is
smaller than the changes of the machine's speed within a second, the programs of all sides run at the same time and take
turns of some milliseconds, each of which is a sample.
"""
import argparse
import json
import signal
import sys
import tempfile
import time

import machine
import summary
from rows import SIDES, SLOW, Failed, Missing, measurements
from runner import Runner, kill_children


def progress(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def perform(measurement, runner, repeat, chosen_sides=None):
    """All repetitions of one measurement; returns its results, one for each row. `chosen_sides`: no others."""
    results = [{"row": row.name, "title": row.title, "unit": row.unit, "goal": row.goal, "sides": {}}
               for row in measurement.rows]
    out = {}
    sides = [side for side in measurement.sides if chosen_sides is None or side in chosen_sides]
    in_turns = [side for side in sides if measurement.turns and side not in SLOW]
    one_by_one = [side for side in sides if side not in in_turns]
    sets = repeat * measurement.times if in_turns else 0

    def give_up(side, reason):
        out[side] = {"missing" if isinstance(reason, Missing) else "failed": str(reason)}
        if isinstance(reason, Failed):
            progress(f"{measurement.name}: {side}: failed: {reason}")

    def keep(side, values):
        """`values`: {key: [sample, ...]}."""
        for row, result in zip(measurement.rows, results):
            if row.key not in values:
                return give_up(side, Failed(f"printed no {row.key}"))
            result["sides"].setdefault(side, {"samples": []})["samples"] += values[row.key]

    for repetition in range(max([sets, *(measurement.repeats(side, repeat) for side in one_by_one)])):
        if measurement.pinned:
            runner.processors = machine.fastest_processors(measurement.pinned)
        if repetition < sets and any(side not in out for side in in_turns):
            begin = time.monotonic()
            asked = [side for side in in_turns if side not in out]
            samples, problems = measurement.sample.in_turns(runner, asked, measurement.turns)
            for side in asked:
                if side in problems:
                    give_up(side, problems[side])
                else:
                    keep(side, samples[side])
            progress(f"{measurement.name} {repetition + 1}/{sets} {', '.join(asked)}: {time.monotonic() - begin:.1f} s")
        for side in one_by_one:
            if side in out or repetition >= measurement.repeats(side, repeat):
                continue
            begin = time.monotonic()
            try:
                keep(side, {key: [value] for key, value in measurement.sample(runner, side).items()})
            except (Missing, Failed) as reason:
                give_up(side, reason)
            if side not in out:
                progress(f"{measurement.name} {repetition + 1}/{measurement.repeats(side, repeat)} {side}: "
                         f"{time.monotonic() - begin:.1f} s")
    if measurement.pinned:
        runner.processors = None
    for result in results:
        for side, why in out.items():
            result["sides"].setdefault(side, {"samples": []}).update(why)
        result["sides"] = {side: result["sides"][side] for side in measurement.sides if side in result["sides"]}
    return [summary.summarize(result) for result in results]


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench.sh",
                                     description="Measures the cost of culprit, against nothing and other tools.")
    parser.add_argument("--tree", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="only the rows that need no GPU, on the simulated driver")
    parser.add_argument("--only", metavar="ROW[,ROW]", help="only the measurements that have these rows")
    parser.add_argument("--sides", metavar="SIDE[,SIDE]", help=f"only these of {', '.join(SIDES)}")
    parser.add_argument("--repeat", type=int, default=0, metavar="N", help="repetitions (5; 3 with --quick)")
    parser.add_argument("--out", metavar="FILE", help="write every sample and the machine as JSON")
    parser.add_argument("--markdown", action="store_true", help="print the table of tests/bench/FIGURES.md instead")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and end")
    options = parser.parse_args()
    if options.repeat < 0:
        parser.error("--repeat needs a number above 0")
    return options, parser


def main():
    options, parser = arguments()
    chosen = measurements(options.quick)
    if options.list:
        for measurement in chosen:
            for row in measurement.rows:
                print(f"{row.name:<16} {row.title}")
        return 0
    if options.only:
        wanted = set(options.only.split(","))
        known = {row.name for measurement in chosen for row in measurement.rows}
        if wanted - known:
            parser.error(f"no row {', '.join(sorted(wanted - known))}; there are {', '.join(sorted(known))}")
        chosen = [measurement for measurement in chosen if wanted & {row.name for row in measurement.rows}]
    sides = options.sides.split(",") if options.sides else None
    if sides and set(sides) - set(SIDES):
        parser.error(f"no side {', '.join(sorted(set(sides) - set(SIDES)))}; there are {', '.join(SIDES)}")
    about = machine.describe(options.tree)
    if not options.quick and about["gpu"] is None:
        parser.error("this machine has no NVIDIA GPU: use --quick")
    repeat = options.repeat or (3 if options.quick else 5)
    results = []
    interrupted = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="culprit-bench-") as work:
        runner = Runner(options.tree, work)
        try:
            for measurement in chosen:
                results += perform(measurement, runner, repeat, sides)
        except KeyboardInterrupt:
            kill_children()
            interrupted = True
            progress("interrupted: the results so far follow")
    if options.only:
        results = [result for result in results if result["row"] in wanted]
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"schema": "culprit.bench/1", "machine": about, "quick": options.quick, "repeat": repeat,
                       "interrupted": interrupted, "rows": results}, file, indent=1)
            file.write("\n")
    words = machine.in_words(about)
    print(summary.markdown(results, SIDES, words)
          if options.markdown else f"{words}\n\n{summary.table(results, SIDES)}")
    if interrupted:
        return 130
    return 1 if any("failed" in side for result in results for side in result["sides"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
