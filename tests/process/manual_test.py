#!/usr/bin/env python3
"""The manual, run as its readers run it: manual_test.py SOURCE BUILD [--show] [PAGE...]

Each command of each page of report/manual/ runs on the simulated driver, and the output that the page shows is compared
with the program's. report/manual/README.md describes the marks of a page. Process numbers, host names and times may be
others, a line "..." stands for any lines, and "..." in a line for any words. --show prints each command with its
output, for a writer.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from build_tree import BUILD, ENVIRONMENT, SOURCE

SHOW = "--show" in sys.argv
PAGES = [word for word in sys.argv[1:] if not word.startswith("-")]
FOLDER = SOURCE / "report/manual"
SECONDS = 100
MARK = "\x01"
# Blocks that no test runs, each with its reason in the page. The number may only shrink. Three are of Docker,
# Kubernetes and systemd: servers_test.py checks their files.
NOT_RUN = 9


class Block:
    """A block of code: its language, its lines, and the marks in front of it."""

    def __init__(self, page, line, language, marks):
        self.place = f"{page}:{line}"
        self.language = language
        self.lines = []
        self.setup = [text for word, text in marks if word == "setup"]
        self.needs = next((text for word, text in marks if word == "needs"), None)
        self.not_run = next((text for word, text in marks if word == "not run"), None)
        self.exit = int(next((text for word, text in marks if word == "exit"), "0"))

    def commands(self):
        """(command, expected lines or None) of each command. A line that ends in a backslash goes on."""
        found = []
        for line in self.lines:
            if self.language == "console" and not line.startswith("$ "):
                found[-1][1].append(line)
            elif found and found[-1][0].endswith("\\"):
                found[-1][0] += "\n" + line
            elif line.strip():
                found.append([line.removeprefix("$ "), [] if self.language == "console" else None])
        return found


def blocks_of(page):
    found, marks, block = [], [], None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        mark = re.fullmatch(r"<!-- ([a-z ]+): (.*) -->", line)
        if block is not None and line == "```":
            block = None
        elif block is not None:
            block.lines.append(line)
        elif line.startswith("```"):
            block = Block(page.name, number, line[3:], marks)
            found.append(block)
            # An output stands before its command: the exit code and the needs are those of the command.
            marks = [mark for mark in marks if block.language == "text" and mark[0] != "setup"]
        elif mark:
            marks.append(mark.groups())
    return found


def masked(text):
    """A line without what differs from run to run."""
    for pattern, mask in ((r"\bon [\w.-]+ ·", "on HOST ·"), (r"\[\d+\]", "[PID]"), (r"\.\d+\.dump\b", ".PID.dump"),
                          (r"\b[\d.]+ (ns|us|ms|s|min)\b", "TIME"), (r'\b\d+ "', 'TID "'), (r"\s+", " ")):
        text = re.sub(pattern, mask, text)
    return text.strip()


def pattern_of(line):
    return re.compile(".*".join(re.escape(part) for part in masked(line).split("...")))


def difference(expected, found):
    """The first line of the page that the output does not have; None: the output is as shown."""
    found = [masked(line) for line in found]
    at, anywhere = 0, False
    for line in expected:
        if line.strip() == "...":
            anywhere = True
            continue
        wanted = pattern_of(line)
        while anywhere and at < len(found) and not wanted.fullmatch(found[at]):
            at += 1
        if at == len(found) or not wanted.fullmatch(found[at]):
            return line
        at, anywhere = at + 1, False
    return None if anywhere or at == len(found) else f"(the page ends here) {found[at]}"


# Processes of other tests may have begun in the control group of a run, and the simulated machine has no NVML to ask.
OF_NEIGHBOURS = "note    processes that use a GPU unseen were looked for by their environment, parents and mappings "


class Page:
    """One shell runs all of a page, so that a later command finds what an earlier one made."""

    def __init__(self, path):
        self.blocks = blocks_of(path)
        self.output = ""
        self.runs = []  # (block, command, expected lines)

    def script(self):
        yield "exec 2>&1; trap 'kill $(jobs -p) 2>/dev/null' EXIT"
        shown = None
        for block in self.blocks:
            yield from block.setup
            if block.not_run is not None or block.language not in ("console", "sh", "text"):
                continue
            if block.language == "text":
                shown = block.lines
                continue
            if block.needs is not None:
                yield f"if ( {block.needs} ) >/dev/null; then"
            for command, expected in block.commands():
                if shown is not None:
                    expected, shown = shown, None
                yield f"printf '{MARK}%s\\n' {len(self.runs)}; {{ {command}\n}} </dev/null; printf '\\n{MARK}=%s\\n' $?"
                self.runs.append((block, command, expected))
            if block.needs is not None:
                yield "fi"

    def run(self, folder):
        """{number of a run: (exit code, lines)}"""
        path = f"{BUILD / 'bin'}:{ENVIRONMENT['PATH']}"
        environment = {**ENVIRONMENT, "PATH": path, "HOME": str(folder), "SOURCE": str(SOURCE), "BUILD": str(BUILD),
                       "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"}
        script = "\n".join(self.script()) + "\n"
        done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True, errors="replace", timeout=SECONDS, check=False)
        self.output = done.stdout
        results = {}
        for number, text, code in re.findall(rf"{MARK}(\d+)\n(.*?)\n{MARK}=(\d+)\n", self.output, re.DOTALL):
            lines = [line for line in text.removesuffix("\n").splitlines() if not line.startswith(OF_NEIGHBOURS)]
            results[int(number)] = (int(code), lines)
        return results


class Manual(unittest.TestCase):
    def check(self, path):
        page = Page(path)
        with tempfile.TemporaryDirectory(prefix="manual-") as folder:
            results = page.run(pathlib.Path(folder))
        for number, (block, command, expected) in enumerate(page.runs):
            if number not in results:
                self.assertIsNotNone(block.needs, f"{block.place}: the shell did not come to {command}\n{page.output}")
                print(f"{block.place}: skipped, the machine lacks what it needs: {command}")
                continue
            found_code, lines = results[number]
            text = "\n".join(lines)
            if SHOW:
                print(f"== {block.place} $ {command}\n{text}\n== {found_code}")
                continue
            self.assertEqual(found_code, block.exit, f"{block.place}: {command}\n{text}")
            missing = difference(expected, lines) if expected is not None else None
            self.assertIsNone(missing, f"{block.place}: {command}: the output lacks the line above\n{text}")

    def test_marks(self):
        left_out = 0
        for path in pages():
            for block in blocks_of(path):
                self.assertIn(block.language, ("console", "sh", "text", "c", "cpp", "python", "cmake", "json", "yaml"),
                              block.place)
                if block.not_run is not None:
                    self.assertGreater(len(block.not_run), 10, block.place)
                    left_out += 1
        if not PAGES:
            self.assertLessEqual(left_out, NOT_RUN)

    def test_words_of_files(self):
        """The functions and headers of culprit that the pages call in files of other languages."""
        api = "".join(path.read_text(encoding="utf-8") for folder, names in (
            ("interpose/include", "*.h"), ("interpose/python_package/culprit", "*.py"), ("scripts/cmake", "culprit*"))
            for path in sorted((SOURCE / folder).rglob(names)))
        for path in pages():
            for block in blocks_of(path):
                text = "\n".join(block.lines)
                if block.language == "python":
                    compile(text, block.place, "exec")
                if block.language in ("python", "cpp", "cmake"):
                    for name in re.findall(r"\bculprit(?:_|\.|::)(\w+)\b(?!>)", text):
                        self.assertRegex(api, rf"(?<![a-z]){name}\b", block.place)
                    for header in re.findall(r"#include <(culprit[\w./]*)>", text):
                        self.assertTrue((SOURCE / "interpose/include" / header).exists(), block.place)

    def test_wildcards(self):
        self.assertIsNone(difference(["a", "...", "d"], ["a", "b", "c", "d"]))
        self.assertIsNone(difference(["a", "..."], ["a"]))
        self.assertIsNone(difference(["culprit · ./app [1] on a · exit 0", "took ... in all"],
                                     ["culprit · ./app [77] on b · exit 0", "took 3 ms  in all"]))
        self.assertEqual(difference(["a", "b"], ["a", "c"]), "b")
        self.assertEqual(difference(["a", "...", "d"], ["a", "b"]), "d")
        self.assertEqual(difference(["12.0 MiB"], ["13.0 MiB"]), "12.0 MiB")
        self.assertIsNotNone(difference(["a"], ["a", "b"]))


def pages():
    return sorted(path for path in FOLDER.glob("*.md")
                  if path.name != "README.md" and (not PAGES or path.stem in PAGES))


def add_test(path):
    setattr(Manual, f"test_page_{path.stem.replace('-', '_')}", lambda self: self.check(path))


for one in pages():
    add_test(one)

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
