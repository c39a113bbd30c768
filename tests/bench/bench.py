#!/usr/bin/env python3
"""Measures what culprit costs: see scripts/bench.sh, which builds what this runs and passes its options on.

Every measurement runs its sides in turn (nothing, culprit, ..., nothing, culprit, ...), so that what disturbs the machine disturbs all of
them alike. One run of a program gives a sample to each row of its measurement.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine
import summary
from rows import SIDES, Failed, Missing, measurements


class Runner:
    """Runs one side of one measurement and gives its values."""

    def __init__(self, tree, work):
        self.tree, self.work = Path(tree), Path(work)
        self.cupti = machine.find_cupti()
        self.count = 0
        self.processor = None  # that the next runs are pinned to

    def program(self, name):
        path = self.tree / "bench" / name
        if not path.is_file():
            raise Missing("not built")
        return str(path)

    def environment(self, side, simulated):
        """The variables that make a program run under a side, and the words to put before its command."""
        variables, prefix = {}, []
        if simulated:
            variables["LD_LIBRARY_PATH"] = str(self.tree / "simcuda")
            if not (self.tree / "simcuda").is_dir():
                raise Missing("no simulated driver")
        if side in ("culprit", "nostacks"):
            variables.update(LD_PRELOAD=str(self.tree / "lib/libculprit.so"), CULPRIT_OUT=f"{self.dumps}/%n.%p.dump", CULPRIT_QUIET="1")
            if side == "nostacks":
                variables.update(CULPRIT_DEPTH="0", CULPRIT_LOG="off")
        elif side == "cupti":
            subscriber = self.tree / "bench/empty_subscriber.so"
            if not subscriber.is_file() or not self.cupti:
                raise Missing("not installed")
            variables.update(CUDA_INJECTION64_PATH=str(subscriber), BENCH_CUPTI=self.cupti)
        elif side == "sanitizer":
            prefix = [self.tool("compute-sanitizer"), "--tool", "memcheck", "--leak-check", "full", "--report-api-errors", "no"]
        elif side == "nsys":
            prefix = [self.tool("nsys"), "profile", "--cuda-memory-usage=true", "--trace=cuda", "--sample=none", "--cpuctxsw=none",
                      "--force-overwrite=true", f"--output={self.dumps}/nsys"]
        return variables, prefix

    @staticmethod
    def tool(name):
        path = machine.find_tool(name)
        if path is None:
            raise Missing("not installed")
        return path

    @property
    def dumps(self):
        return self.work / f"run{self.count}"

    def run(self, command, side, simulated=False, timeout=120, **variables):
        """Runs a command under a side. Returns its values: "name=number" lines of stdout, wall_ns, cpu_ns, peak_bytes, dump_bytes."""
        self.count += 1
        self.dumps.mkdir()
        added, prefix = self.environment(side, simulated)
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **added, **variables)
        with open(self.dumps / "stdout", "w+", encoding="utf-8") as out, open(self.dumps / "stderr", "w+", encoding="utf-8") as err:
            begin = time.perf_counter_ns()
            pin = None if self.processor is None else lambda: os.sched_setaffinity(0, {self.processor})
            process = subprocess.Popen([*prefix, *command], env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       start_new_session=True, preexec_fn=pin)
            status, usage = wait(process, timeout)
            wall = time.perf_counter_ns() - begin
            out.seek(0)
            err.seek(0)
            text, errors = out.read(), err.read()
        sizes = [path.stat().st_blocks * 512 for path in self.dumps.glob("*.dump*")]
        for path in self.dumps.iterdir():
            path.unlink()
        if status is None:
            raise Failed(f"not finished after {timeout} s")
        if status != 0:
            raise Failed(f"exit code {status}: {(errors or text).strip()[-500:]}")
        values = {name: float(number) for name, number in re.findall(r"^(\w+)=(-?[0-9.]+)$", text, re.MULTILINE)}
        instructions = re.search(r"Collected : (\d+)", errors)
        if instructions:
            values["instructions"] = float(instructions[1])
        if side in ("culprit", "nostacks") and not sizes and "bin/culprit" not in command[0]:
            raise Failed("left no dump: was the library loaded?")
        cpu = (usage.ru_utime + usage.ru_stime) * 1e9
        return dict(values, wall_ns=wall, cpu_ns=cpu, peak_bytes=usage.ru_maxrss * 1024, dump_bytes=sum(sizes))


def wait(process, timeout):
    """(exit code, resource usage); (None, ...) after a timeout, when the whole process group was killed."""
    deadline = time.monotonic() + timeout
    # Polling would round wall times up; a timer thread would be heavier than this alarm-free wait in slices that grow with the time.
    pause = 0.0002
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid != 0:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage
        if time.monotonic() > deadline:
            os.killpg(process.pid, 9)
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = -9
            return None, usage
        time.sleep(pause)
        pause = min(pause * 1.05, 0.02)


def progress(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def perform(measurement, runner, repeat, chosen_sides=None):
    """All repetitions of one measurement; returns its results, one for each row. `chosen_sides`: no others."""
    results = [{"row": row.name, "title": row.title, "unit": row.unit, "goal": row.goal, "sides": {}} for row in measurement.rows]
    out = {}
    sides = [side for side in measurement.sides if chosen_sides is None or side in chosen_sides]
    for repetition in range(max((measurement.repeats(side, repeat) for side in sides), default=0)):
        if measurement.pinned:
            runner.processor = machine.fastest_processor()
        for side in sides:
            if side in out or repetition >= measurement.repeats(side, repeat):
                continue
            begin = time.monotonic()
            try:
                values = measurement.sample(runner, side)
                for row, result in zip(measurement.rows, results):
                    if row.key not in values:
                        raise Failed(f"printed no {row.key}")
                    result["sides"].setdefault(side, {"samples": []})["samples"].append(values[row.key])
            except Missing as missing:
                out[side] = {"missing": str(missing)}
            except Failed as failed:
                out[side] = {"failed": str(failed)}
                progress(f"{measurement.name}: {side}: failed: {failed}")
            else:
                progress(f"{measurement.name} {repetition + 1}/{measurement.repeats(side, repeat)} {side}: {time.monotonic() - begin:.1f} s")
    if measurement.pinned:
        runner.processor = None
    for result in results:
        for side, why in out.items():
            result["sides"].setdefault(side, {"samples": []}).update(why)
        result["sides"] = {side: result["sides"][side] for side in measurement.sides if side in result["sides"]}
    return [summary.summarize(result) for result in results]


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench.sh", description="Measures what culprit costs, against nothing and other tools.")
    parser.add_argument("--tree", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="only what needs no GPU, on the simulated driver")
    parser.add_argument("--only", metavar="ROW[,ROW]", help="only the measurements that have these rows")
    parser.add_argument("--sides", metavar="SIDE[,SIDE]", help=f"only these of {', '.join(SIDES)}")
    parser.add_argument("--repeat", type=int, default=0, metavar="N", help="repetitions (5; 3 with --quick)")
    parser.add_argument("--out", metavar="FILE", help="write every sample and the machine as JSON")
    parser.add_argument("--markdown", action="store_true", help="print the README's table instead")
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
    with tempfile.TemporaryDirectory(prefix="culprit-bench-") as work:
        runner = Runner(options.tree, work)
        for measurement in chosen:
            results += perform(measurement, runner, repeat, sides)
    if options.only:
        results = [result for result in results if result["row"] in wanted]
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"schema": "culprit.bench/1", "machine": about, "quick": options.quick, "repeat": repeat, "rows": results}, file, indent=1)
            file.write("\n")
    words = machine.in_words(about)
    print(summary.markdown(results, SIDES, words) if options.markdown else f"{words}\n\n{summary.table(results, SIDES)}")
    return 1 if any("failed" in side for result in results for side in result["sides"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
