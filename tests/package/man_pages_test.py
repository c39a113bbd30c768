#!/usr/bin/env python3
"""Checks the manual pages: man_pages_test.py CULPRIT OPTIONS FOLDER

Each sub-command of the command CULPRIT and each of its options is in FOLDER/culprit.1, each variable of the table
OPTIONS (options.def) in FOLDER/libculprit.so.7. Each page of the manual is there. The tools for manual pages that this
machine has find nothing wrong.
The help texts are read here in another way than scripts/man_pages.py reads them.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

CULPRIT, OPTIONS, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])


def output_of(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=True).stdout


def plain(page):
    """The page's source without fonts and escapes."""
    text = (FOLDER / page).read_text(encoding="utf-8")
    return re.sub(r"\\f[BIR]", "", text).replace("\\-", "-").replace("\\e", "\\")


def sub_commands():
    return re.findall(r"^  ([a-z]+) {2,}\S", output_of(CULPRIT, "--help").split("Subcommands:")[1], re.MULTILINE)


def options_of(command):
    """The options of a sub-command; None: of the command itself."""
    text = output_of(CULPRIT, *([command] if command else []), "--help")
    return set(re.findall(r"(?:^  |,)(--?[a-z][a-z-]*)", text, re.MULTILINE))


def manual_pages():
    """culprit-PAGE.7 for each page that `culprit help` names."""
    pages = output_of(CULPRIT, "--help").split("a page of the manual:\n")[1].split("\nUsage:")[0]
    return [f"culprit-{page}.7" for page in re.split(r",\s+", pages)]


class ManualPages(unittest.TestCase):
    def test_each_page_of_the_manual_is_there(self):
        self.assertGreater(len(manual_pages()), 14)
        see_also = plain("culprit.1").split(".SH SEE ALSO")[1]
        for page in manual_pages():
            text = plain(page)
            self.assertRegex(text, r"\.SH NAME\nculprit-[a-z-]+ - \w")
            self.assertNotRegex(text, r"```|<!--|\]\(|\| ---|\*\*", page)
            self.assertIn(f".BR {page.removesuffix('.7')} (7)", see_also)
        # A command stands there as it is typed.
        self.assertIn("culprit run -- ./solver\n", plain("culprit-first-leak.7"))
        self.assertIn("\nNEVER FREED\n", plain("culprit-reading.7"))

    def test_each_sub_command_has_its_options(self):
        commands = sub_commands()
        self.assertIn("run", commands)
        sections = dict(re.findall(r'\.SS "culprit (\w+)"\n(.*?)(?=\.S[SH] )', plain("culprit.1"), re.DOTALL))
        self.assertEqual(list(sections), commands)
        # Options of every sub-command are described once, before them.
        everywhere = options_of(None)
        before = plain("culprit.1").split('.SH COMMANDS')[0]
        self.assertLessEqual({"-h", "--help", "-v", "--verbose", "-q", "--quiet"}, everywhere)
        self.assertEqual({name for name in everywhere if not re.search(rf"(?<!\S){name}\b", before)}, set())
        for command, text in sections.items():
            heads = set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)",
                                   "\n".join(re.findall(r"^\.TP\n(.*)", text, re.MULTILINE))))
            self.assertEqual(heads, options_of(command) - everywhere, command)

    def test_each_option_has_a_description(self):
        for page in ("culprit.1", "libculprit.so.7"):
            for head, text in re.findall(r"^\.TP\n(.*)\n(.*)", plain(page), re.MULTILINE):
                self.assertRegex(text, r"^(\\&)?[^.\s]", f"{page}: {head}")

    def test_values_and_defaults_are_there(self):
        text = " ".join(plain("culprit.1").split())
        for part in ("--fail-call NAME:N:CODE", "Default: bytes.", "Range: 1 to 255.", "Not with --no-merge.",
                     "Required."):
            self.assertIn(part, text)

    def test_each_variable_is_there(self):
        variables = re.findall(r'^OPTION_\w+\(\w+, "(CULPRIT_\w+)"', OPTIONS.read_text(encoding="utf-8"), re.MULTILINE)
        self.assertIn("CULPRIT_OUT", variables)
        heads = re.findall(r"^\.TP\n(CULPRIT_\w+)$", plain("libculprit.so.7"), re.MULTILINE)
        self.assertEqual(heads[:len(variables)], variables)
        text = " ".join(plain("libculprit.so.7").split())
        self.assertIn("Range: 1M to 64G. Default: 1G.", text)

    def test_tools_find_nothing_wrong(self):
        commands = [["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-man", "-ww", "-z"],
                    ["man", "--warnings", "-l"]]
        present = [command for command in commands if shutil.which(command[0])]
        if not present:
            self.skipTest("none of mandoc, groff and man is here")
        for command in present:
            for page in ("culprit.1", "libculprit.so.7", *manual_pages()):
                run = subprocess.run([*command, str(FOLDER / page)], stdin=subprocess.DEVNULL, capture_output=True,
                                     text=True, timeout=60, check=False)
                # man prints the page itself to stdout.
                said = run.stderr if command[0] == "man" else run.stdout + run.stderr
                self.assertEqual((run.returncode, said), (0, ""), f"{command[0]} {page}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
