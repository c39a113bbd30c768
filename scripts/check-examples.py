#!/usr/bin/env python3
"""Runs example programs under libculprit.so and compares each report with the expectations in the program's header.

    check-examples.py --programs build/examples --sources examples --culprit build/bin/culprit \
                      --library build/lib/libculprit.so [--simulator build/simcuda] [PROGRAM...]

PROGRAM is a file name in --programs, or in --sources with .py (default: one of every kind that --sources has a source
for). Python runs by this script's own interpreter; without PyCUDA that is a skipped run. With --simulator the programs
run on the simulated driver, without it on the machine's GPU. Prints a line for each run and a summary; exit code 1 when
one failed, 77 when every one was skipped. The header's language is described in examples/README.md.
"""
import argparse
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

EXIT_SKIPPED = 77
VARIANTS = ("", "_static", "_nvstatic")
TIMEOUT_SECONDS = 110


class Expectation:
    """The header of one source: runs (arguments, expected lines), exit status, environment, and marked lines."""

    def __init__(self, source):
        self.source = source
        self.runs = []
        self.exit_status = 0
        self.simulator_environment = {}
        self.marked_lines = set()
        for number, line in enumerate(source.read_text().splitlines(), start=1):
            if re.search(r"(//|#) leak-here\s*$", line):
                self.marked_lines.add(number)
            match = re.match(r"(?://|#) (run|expect|exit|simulator):\s*(.*)$", line)
            if not match:
                continue
            word, rest = match.groups()
            if word == "run":
                self.runs.append((shlex.split(rest), []))
            elif word == "expect":
                self.runs[-1][1].append(shlex.split(rest))
            elif word == "exit":
                self.exit_status = -getattr(signal, rest) if rest.startswith("SIG") else int(rest)
            else:
                self.simulator_environment = dict(word.split("=", 1) for word in shlex.split(rest))


def plain_name(function):
    """`float* culprit::f<int>(char)` -> `f`: the header names functions without their types."""
    name = re.sub(r"\(anonymous namespace\)::", "", function)
    name = re.sub(r"\(.*$", "", name)
    while "<" in name:
        shorter = re.sub(r"<[^<>]*>", "", name)
        if shorter == name:
            break
        name = shorter
    return name.split(" ")[-1].split("::")[-1]


def function_name(frame):
    """The function of a frame; of a Python frame without class and module."""
    name = frame.get("function") or ""
    return name.split(".")[-1] if frame.get("language") == "python" else plain_name(name)


def frame_text(frame):
    place = f"{frame.get('file') or frame.get('module')}:{frame.get('line')}"
    return f"{frame.get('function')} at {place}"


def key_values(words):
    return dict(word.split("=", 1) for word in words)


class Mismatch(Exception):
    pass


def check_stack(stack, wanted, expectation, what):
    """Compares the top of a stack with function=, module=, caller= and the marked lines. In Python programs only
    Python frames count."""
    if expectation.source.suffix == ".py":
        stack = [frame for frame in stack if frame.get("language") == "python"]
    if not stack:
        raise Mismatch(f"{what}: no stack")
    if function_name(stack[0]) != wanted["function"]:
        raise Mismatch(f"{what}: expected {wanted['function']} on top, found {frame_text(stack[0])}")
    if "module" in wanted and os.path.basename(stack[0].get("module") or "") != wanted["module"]:
        raise Mismatch(f"{what}: expected module {wanted['module']}, found {stack[0].get('module')}")
    marked = stack[0]
    if "caller" in wanted:
        marked = stack[1] if len(stack) > 1 else {}
        if function_name(marked) != wanted["caller"]:
            raise Mismatch(f"{what}: expected the caller {wanted['caller']}, found {frame_text(marked)}")
    if not what.startswith("error"):
        if os.path.basename(marked.get("file") or "") != expectation.source.name:
            raise Mismatch(f"{what}: expected a line of {expectation.source.name}, found {frame_text(marked)}")
        if marked.get("line") not in expectation.marked_lines:
            lines = ", ".join(str(line) for line in sorted(expectation.marked_lines))
            raise Mismatch(f"{what}: expected line {lines} (leak-here), found {frame_text(marked)}")


def check_group(leak, wanted, expectation, word):
    what = f"{word} in {wanted['function']}"
    for name in ("bytes", "count"):
        if name in wanted and leak[name] != int(wanted[name]):
            raise Mismatch(f"{what}: expected {name}={wanted[name]}, found {leak[name]}")
    for name in ("api", "kind", "cause"):
        if name in wanted and leak[name] != wanted[name]:
            raise Mismatch(f"{what}: expected {name}={wanted[name]}, found {leak[name]}")
    if "device" in wanted and leak["device"] != int(wanted["device"]):
        raise Mismatch(f"{what}: expected device={wanted['device']}, found {leak['device']}")
    threads = leak["threads"]
    if "threads" in wanted and len(threads) != int(wanted["threads"]):
        raise Mismatch(f"{what}: expected {wanted['threads']} threads, found {threads}")
    ended = [thread for thread in threads if thread.get("ended")]
    if "ended-threads" in wanted and len(ended) != int(wanted["ended-threads"]):
        raise Mismatch(f"{what}: expected {wanted['ended-threads']} ended threads, found {threads}")
    check_stack(leak["stack"], wanted, expectation, what)


def check_report(report, expected, expectation):
    """Raises Mismatch unless the report has exactly the expected leaks and errors. Resources and caches are compared
    only when some are expected."""
    found = {"leak": [leak for leak in report["leaks"] if leak["cause"] != "cached"],
             "cached": [leak for leak in report["leaks"] if leak["cause"] == "cached"], "resource": report["resources"]}
    errors = report["errors"]
    wanted_errors = [(words[1], key_values(words[2:])) for words in expected if words[0] == "error"]
    wanted_end = [words[1] for words in expected if words[0] == "ended"] or ["exit"]

    def describe(groups, name):
        return "; ".join(f"{group.get(name)} {group.get('bytes', '')} {group.get('count', '')} "
                         f"{frame_text((group.get('stack') or [{}])[0])}" for group in groups) or "none"

    for word, groups in found.items():
        wanted_groups = [key_values(words[1:]) for words in expected if words[0] == word]
        if word != "leak" and not wanted_groups:
            continue
        if len(groups) != len(wanted_groups):
            raise Mismatch(f"expected {len(wanted_groups)} {word} groups, found {len(groups)}: "
                           f"{describe(groups, 'api')}")
        for group, wanted in zip(groups, sorted(wanted_groups, key=lambda group: -int(group.get("bytes", 0)))):
            check_group(group, wanted, expectation, word)
    if len(errors) != len(wanted_errors):
        raise Mismatch(f"expected {len(wanted_errors)} errors, found {len(errors)}: {describe(errors, 'type')}")
    for error, (error_type, wanted) in zip(errors, wanted_errors):
        if error["type"] != error_type:
            raise Mismatch(f"expected the error {error_type}, found {error['type']}")
        if "function" in wanted:
            check_stack(error["stack"], wanted, expectation, f"error {error_type}")
    if report["process"]["ended"] != wanted_end[0]:
        raise Mismatch(f"expected the end '{wanted_end[0]}', found '{report['process']['ended']}'")
    if report["summary"]["dropped"] != 0:
        raise Mismatch(f"{report['summary']['dropped']} records were dropped")


def run_once(program, arguments, expected, expectation, options):
    """Runs the program once and checks its report. Returns "PASS" or "SKIP"; raises Mismatch."""
    with tempfile.TemporaryDirectory(prefix="culprit-example-") as folder:
        environment = dict(os.environ, LD_PRELOAD=str(options.library), CULPRIT_OUT=f"{folder}/%n.%p.dump")
        if options.simulator:
            environment["LD_LIBRARY_PATH"] = str(options.simulator)
            environment.update(expectation.simulator_environment)
        command = [str(program)]
        if program.suffix == ".py":
            if importlib.util.find_spec("pycuda") is None:
                return "SKIP"
            command.insert(0, sys.executable)
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
            if options.simulator:
                environment["LD_LIBRARY_PATH"] += f":{options.simulator}/pycuda"
        result = subprocess.run([*command, *arguments], env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_SECONDS)
        if result.returncode == EXIT_SKIPPED:
            return "SKIP"
        if result.returncode != expectation.exit_status:
            raise Mismatch(f"exit code {result.returncode}, expected {expectation.exit_status}\n{result.stdout}")
        # A Python program with live memory leaves the view from inside, too.
        dumps = [path for path in sorted(Path(folder).iterdir()) if path.suffix != ".json"]
        if len(dumps) != 1:
            raise Mismatch(f"expected one dump, found {[dump.name for dump in dumps]}\n{result.stdout}")
        command = [str(options.culprit), "report", "--format", "json", "--resources", str(dumps[0])]
        report = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=TIMEOUT_SECONDS)
        if report.returncode != 0:
            raise Mismatch(f"culprit report: exit code {report.returncode}: {report.stderr.strip()}")
        check_report(json.loads(report.stdout), expected, expectation)
        return "PASS"


def source_of(program, sources):
    if program.endswith(".py"):
        return sources / "python" / program
    for variant in reversed(VARIANTS):
        if program.endswith(variant):
            source = sources / (program[:len(program) - len(variant)] + ".cpp")
            if source.exists():
                return source
    sys.exit(f"check-examples.py: no source for {program} in {sources}")


def default_programs(options):
    variants = [variant for variant in VARIANTS if not (options.simulator and variant == "_nvstatic")]
    if not options.simulator:
        variants.remove("_static")
    names = []
    for source in sorted(options.sources.glob("*.cpp")):
        names += [source.stem + variant for variant in variants
                  if (options.programs / (source.stem + variant)).exists()]
    return names + sorted(source.name for source in options.sources.glob("python/*.py"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, text in (("programs", "folder of the built examples"), ("sources", "folder of their sources"),
                       ("culprit", "the culprit command"), ("library", "libculprit.so")):
        parser.add_argument(f"--{name}", required=True, type=lambda path: Path(path).resolve(), help=text)
    parser.add_argument("--simulator", type=lambda path: Path(path).resolve(), help="folder of the simulated driver")
    parser.add_argument("names", nargs="*", metavar="PROGRAM")
    options = parser.parse_args()

    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    for name in options.names or default_programs(options):
        expectation = Expectation(source_of(name, options.sources))
        if not expectation.runs:
            sys.exit(f"check-examples.py: {expectation.source} has no 'run:' line")
        for arguments, expected in expectation.runs:
            try:
                program = expectation.source if name.endswith(".py") else options.programs / name
                outcome, detail = run_once(program, arguments, expected, expectation, options), ""
            except Mismatch as mismatch:
                outcome, detail = "FAIL", str(mismatch)
            except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError, KeyError, TypeError) as error:
                outcome, detail = "FAIL", f"{type(error).__name__}: {error}"
            counts[outcome] += 1
            print(f"{outcome}  {' '.join([name, *arguments])}" + (f"\n      {detail}" if detail else ""), flush=True)
    print(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
    if counts["FAIL"]:
        return 1
    return EXIT_SKIPPED if counts["SKIP"] and not counts["PASS"] else 0


if __name__ == "__main__":
    sys.exit(main())
