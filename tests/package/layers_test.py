#!/usr/bin/env python3
"""scripts/check-layers.py, on small trees: layers_test.py SCRIPTS_FOLDER"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(sys.argv[1]) / "check-layers.py"
LAYERS = "interpose: low, beside < high\nreport: only\n"


class Tree(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="culprit-layers-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.write("scripts/layers.txt", LAYERS)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def source(self, name, *included):
        self.write(name, "".join(f'#include "{header}"\n' for header in included))

    def check(self, *lines):
        """The script prints these lines."""
        done = subprocess.run([sys.executable, SCRIPT, self.root], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual((done.stdout.splitlines(), done.stderr, done.returncode),
                         (list(lines), "", 1 if lines else 0))


class Folders(Tree):
    def test_a_file_includes_its_own_folder_and_those_to_the_left(self):
        self.source("interpose/high/a.cpp", "interpose/high/b.h", "interpose/low/c.h")
        self.check()

    def test_a_folder_to_the_right_or_beside_is_refused(self):
        self.source("interpose/low/a.cpp", "interpose/high/b.h", "interpose/beside/c.h")
        self.check("interpose/low/a.cpp -> interpose/high/b.h: interpose/low/ may not include interpose/high/ "
                   "(scripts/layers.txt)",
                   "interpose/low/a.cpp -> interpose/beside/c.h: interpose/low/ may not include interpose/beside/ "
                   "(scripts/layers.txt)")

    def test_a_folder_without_a_step_is_refused(self):
        self.source("report/new/a.cpp")
        self.check("report/new/ is missing in scripts/layers.txt")


class Units(Tree):
    def test_two_headers_that_include_one_another_are_a_circle(self):
        self.source("interpose/low/a.h", "interpose/low/b.h")
        self.source("interpose/low/b.h", "interpose/low/a.h")
        self.check("a circle of includes: interpose/low/a interpose/low/b")

    def test_a_source_counts_as_its_header(self):
        self.source("interpose/low/a.h", "interpose/low/b.h")
        self.source("interpose/low/b.h", "interpose/low/c.h")
        self.source("interpose/low/c.cpp", "interpose/low/c.h", "interpose/low/a.h")
        self.check("a circle of includes: interpose/low/a interpose/low/b interpose/low/c")

    def test_a_line_of_units_and_a_table_are_none(self):
        self.source("interpose/low/a.h", "interpose/low/b.h", "interpose/low/c.h")
        self.source("interpose/low/b.h", "interpose/low/c.h")
        self.source("interpose/low/c.cpp", "interpose/low/c.h", "interpose/low/a.def")
        self.check()

    def test_two_circles_are_two_lines(self):
        for pair in ("ab", "cd"):
            for one, other in (pair, reversed(pair)):
                self.source(f"report/only/{one}.h", f"report/only/{other}.h")
        self.check("a circle of includes: report/only/a report/only/b",
                   "a circle of includes: report/only/c report/only/d")


class Listed(Tree):
    def circle(self, *units):
        for unit, following in zip(units, units[1:] + units[:1]):
            self.source(f"interpose/low/{unit}.h", f"interpose/low/{following}.h")

    def test_a_circle_with_a_reason_may_stay(self):
        self.circle("a", "b")
        self.write("scripts/unit_circles.txt", "# Why.\ninterpose/low/b interpose/low/a\n")
        self.check()

    def test_a_circle_without_a_reason_may_not(self):
        self.circle("a", "b")
        self.write("scripts/unit_circles.txt", "# About this file.\n\ninterpose/low/a interpose/low/b\n")
        self.check("scripts/unit_circles.txt: no reason stands above interpose/low/a interpose/low/b")

    def test_a_circle_that_grows_is_refused(self):
        self.circle("a", "b", "c")
        self.write("scripts/unit_circles.txt", "# Why.\ninterpose/low/a interpose/low/b\n")
        self.check("a circle of includes: interpose/low/a interpose/low/b interpose/low/c",
                   "scripts/unit_circles.txt: this is no circle any more, remove it: interpose/low/a interpose/low/b")

    def test_a_circle_that_is_gone_leaves_the_list(self):
        self.source("interpose/low/a.h", "interpose/low/b.h")
        self.write("scripts/unit_circles.txt", "# Why.\ninterpose/low/a interpose/low/b\n")
        self.check("scripts/unit_circles.txt: this is no circle any more, remove it: interpose/low/a interpose/low/b")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
