#!/usr/bin/env python3
"""Prints the slowest tests and files: scripts/slowest.py JUNIT_FILE BUILD_FOLDER...

JUNIT_FILE is of ctest --output-junit. A BUILD_FOLDER's .ninja_log has the time of each file, and its *_unit_test.log,
where test.sh has run the program, that of each test under a sanitizer. All are seconds that passed, not processor
time: two files, and some tests, run at a time. scripts/test.sh runs it.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree

MOST = 20


def tests(junit):
    return [(float(case.get("time", 0)), case.get("name")) for case in
            xml.etree.ElementTree.parse(junit).iter("testcase")]


def tests_under_sanitizer(folder):
    """The lines of Catch2's --durations, which has one for each section."""
    seconds = {}
    for log in folder.glob("*_unit_test.log"):
        for time, name in re.findall(r"^([0-9.]+) s: (.*)$", log.read_text(encoding="utf-8", errors="replace"), re.M):
            seconds[name] = seconds.get(name, 0) + float(time)
    return [(time, f"{folder.name}: {name}") for name, time in seconds.items()]


def compiled_files(folder):
    """The last entry of a file counts: ninja appends one for each time."""
    seconds = {}
    for line in (folder / ".ninja_log").read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if len(fields) == 5 and fields[3].endswith(".o"):
            seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return [(time, f"{folder.name}/{name}") for name, time in seconds.items() if (folder / name).exists()]


def show(title, entries):
    print(f"== {title}: {len(entries)} in {sum(time for time, _ in entries):.0f} s; the slowest")
    for time, name in sorted(entries, reverse=True)[:MOST]:
        print(f"{time:8.1f} s  {name}")


def main():
    junit, *folders = map(pathlib.Path, sys.argv[1:])
    if junit.exists():
        show("tests", tests(junit))
    if sanitized := [entry for folder in folders for entry in tests_under_sanitizer(folder)]:
        show("tests under a sanitizer", sanitized)
    show("files to compile", [entry for folder in folders if (folder / ".ninja_log").exists()
                              for entry in compiled_files(folder)])


if __name__ == "__main__":
    main()
