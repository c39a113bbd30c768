#!/usr/bin/env python3
"""The targets for the tests that ctest's options choose: scripts/test_targets.py BUILD_FOLDER CTEST_OPTION...

Prints a line for each target; `all` when everything is needed. BUILD_FOLDER is configured and may have nothing built.
Exit code 1: no test has such a name or label. scripts/test.sh runs it.

ctest itself chooses, from a list of all tests: it learns the names of Catch2's tests after the build only, so they are
read from the sources. tests/package/test_targets_test.py compares both.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

EVERYTHING = ["all"]
# They choose by number, or by what an earlier run left in the folder.
CHOOSE_OTHERWISE = re.compile(r"^(-I|--tests-information|-F|--rerun-failed|-S|-D|-T|-M)")
STRING = r'"((?:[^"\\]|\\.)*)"'
STRINGS = r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*'
CATCH_TEST = re.compile(r"^\s*(?:\w*TEST_CASE\w*|SCENARIO)\s*\(\s*(?:\w+\s*,\s*)?"
                        rf"(?P<name>{STRINGS})?(?:\s*,\s*(?P<tags>{STRINGS}))?", re.M)


def catch_tests(path):
    """The names of the tests of a file without those that run only when they are named; None where one has a name that
    only the compiler knows."""
    names = []
    for match in CATCH_TEST.finditer(path.read_text(encoding="utf-8", errors="replace")):
        name, tags = match["name"], match["tags"] or ""
        if not name:
            return None
        if "[." not in tags and "[!hide]" not in tags:
            names.append("".join(re.sub(r"\\(.)", r"\1", part) for part in re.findall(STRING, name)))
    return names


class Needs:
    """The tests by name: label and targets. A list of targets that is None: all targets."""

    def __init__(self, build):
        self.build = build
        self.tests = {}
        self.catch_targets = set()
        needs = {}
        for line in (build / "test_needs.txt").read_text(encoding="utf-8").splitlines():
            kind, name, *rest = line.split("\t")
            if kind == "test":
                needs[name] = [target for target in rest if target]
            else:
                self.add_catch_tests(name, *rest)
        outputs = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, capture_output=True,
                                 text=True).stdout
        self.outputs = {line.rpartition(": ")[0] for line in outputs.splitlines()}
        shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True,
                               text=True).stdout
        commands = self.commands()
        for test in json.loads(shown)["tests"]:
            self.add_known_test(test, commands.get(test["name"], test.get("command")), needs)

    def commands(self):
        """The commands of the tests as CMake wrote them. ctest shows none if its program is not built."""
        commands = {}
        for folder, folders, files in os.walk(self.build):
            path = pathlib.Path(folder)
            # Other builds lie in this one: those of tidy.sh and package.sh, and the clones of newcomer_test.py.
            if path == self.build / "chosen_tests" or (path != self.build and "CMakeCache.txt" in files):
                folders.clear()
            elif "CTestTestfile.cmake" in files:
                tests = (path / "CTestTestfile.cmake").read_text("utf-8")
                for name, words in re.findall(r"^add_test\(\[=*\[(.*?)\]=*\] (.*)\)$", tests, re.M):
                    commands[name] = re.findall(STRING, words)
        return commands

    def add(self, name, labels, targets):
        """A name may belong to several targets: all are needed then."""
        known_labels, known = self.tests.get(name, ([], []))
        together = None if known is None or targets is None else sorted({*known, *targets})
        self.tests[name] = (sorted({*known_labels, *labels}), together)

    def add_catch_tests(self, target, label, *sources):
        self.catch_targets.add(target)
        for source in sources:
            names = catch_tests(pathlib.Path(source))
            if names is None:
                print(f"test_targets.py: {source} has a test whose name is no literal", file=sys.stderr)
                sys.exit(1)
            for name in names:
                self.add(f"{label}:{name}", [label], [target])

    def add_known_test(self, test, command, needs):
        name = test["name"]
        labels = next((entry["value"] for entry in test["properties"] if entry["name"] == "LABELS"), [])
        # ctest's stand-in for the tests of a program that is not built.
        placeholder = re.match(r"(.*)_NOT_BUILT", name)
        program = pathlib.Path(command[0]).name if command else placeholder[1] if placeholder else ""
        if program in self.catch_targets:
            self.add(name, labels, [program])
            return
        files, folders = [], command is None
        for argument in command or []:
            path = pathlib.Path(re.sub(r"^(-D\w+|--[\w-]+)=", "", argument))
            if not path.is_absolute() or (path != self.build and self.build not in path.parents):
                continue
            inside = str(path.relative_to(self.build))
            if inside in self.outputs:
                files.append(inside)
            elif not inside.startswith("deps/") and not path.is_file():
                folders = True
        if name in needs:
            self.add(name, labels, [*files, *needs[name]])
        else:
            self.add(name, labels, None if folders or placeholder else files)

    def chosen(self, options):
        folder = self.build / "chosen_tests"
        folder.mkdir(exist_ok=True)
        with open(folder / "CTestTestfile.cmake", "w", encoding="utf-8") as file:
            for name, (labels, _) in self.tests.items():
                file.write(f"add_test([==[{name}]==] true)\n"
                           f"set_tests_properties([==[{name}]==] PROPERTIES LABELS [==[{';'.join(labels)}]==])\n")
        listed = subprocess.run(["ctest", "--test-dir", folder, *options, "-N"], check=True, capture_output=True,
                                text=True).stdout
        return re.findall(r"^ *Test +#\d+: (.*?)$", listed, re.M)


def words(targets):
    if "all" in targets:
        return "everything"
    most = 8
    more = f" and {len(targets) - most} more targets" if len(targets) > most else ""
    return ", ".join(targets[:most]) + more if targets else "nothing that is built"


def main():
    build, options = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    if any(CHOOSE_OTHERWISE.match(option) for option in options):
        print(*EVERYTHING)
        return 0
    needs = Needs(build)
    names = needs.chosen(options)
    if not names:
        print(f"test_targets.py: no test is chosen by {' '.join(options)}", file=sys.stderr)
        return 1
    targets = set()
    for name in names:
        targets.update(EVERYTHING if needs.tests[name][1] is None else needs.tests[name][1])
    print(*(EVERYTHING if "all" in targets else sorted(targets)), sep="\n")
    print(f"test_targets.py: {len(names)} tests need {words(sorted(targets))}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
