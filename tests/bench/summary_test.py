#!/usr/bin/env python3
"""Tests the benchmark's arithmetic and tables with fixed samples, and its behaviour when sides are missing or fail.
Nothing is timed."""
import contextlib
import glob
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import bench
import rows
import runner
import summary


def result(unit="ns", goal=None, **sides):
    return summary.summarize({"row": "r", "title": "a row", "unit": unit, "goal": goal,
                              "sides": {name: {"samples": list(samples)} for name, samples in sides.items()}})


class Arithmetic(unittest.TestCase):
    def test_median_spread_and_ratio(self):
        made = result(nothing=[100, 300, 200], culprit=[240, 250, 230, 260])
        self.assertEqual(made["sides"]["nothing"]["median"], 200)
        self.assertEqual((made["sides"]["culprit"]["min"], made["sides"]["culprit"]["max"]), (230, 260))
        self.assertEqual(made["sides"]["culprit"]["median"], 245)
        self.assertAlmostEqual(made["sides"]["culprit"]["ratio"],
                               1.15)  # the median of 2.4, 0.83 and 1.15: each run is compared with the one before it
        self.assertEqual(made["sides"]["culprit"]["added"], 30)
        self.assertNotIn("ratio", made["sides"]["nothing"])
        self.assertIsNone(made["holds"])

    def test_a_base_of_zero_gives_no_ratio(self):
        made = result(unit="bytes", goal={"plus": 128}, nothing=[0], culprit=[96])
        self.assertIsNone(made["sides"]["culprit"]["ratio"])
        self.assertTrue(made["holds"])

    def test_goals(self):
        for goal, ours, holds in [({"ratio": 1.2}, 120, True), ({"ratio": 1.2}, 121, False), ({"plus": 10}, 110, True),
                                  ({"plus": 10}, 111, False), ({"most": 100}, 100, True), ({"most": 100}, 101, False),
                                  ({"ratio": 1.1, "plus": 30}, 125, True), ({"ratio": 1.1, "plus": 30}, 131, False)]:
            with self.subTest(goal=goal, ours=ours):
                self.assertEqual(result(goal=goal, nothing=[100], culprit=[ours])["holds"], holds)

    def test_a_goal_without_samples_is_not_judged(self):
        self.assertIsNone(result(goal={"ratio": 1.2}, nothing=[100])["holds"])
        self.assertIsNone(result(goal={"ratio": 1.2}, culprit=[100])["holds"])

    def test_the_spread_of_many_samples_leaves_out_the_outermost_tenths(self):
        self.assertEqual(summary.spread([5, 1, 9]), (1, 9))
        low, high = summary.spread([1e9, 0, *range(100, 200)])
        self.assertTrue(105 < low < 115 and 185 < high < 195)

    def test_quantities(self):
        for value, unit, text in [(12.34, "ns", "12.3 ns"), (612.4, "ns", "612 ns"), (1234.5, "ns", "1.23 us"),
                                  (5e6, "ns", "5 ms"),
                                  (2.5e9, "ns", "2.5 s"), (0, "ns", "0 ns"), (-1500, "ns", "-1.5 us"),
                                  (96, "bytes", "96 B"),
                                  (64 * 2**20, "bytes", "64 MiB"), (1.5 * 2**30, "bytes", "1.5 GiB"),
                                  (1.149, "times", "1.15 x")]:
            self.assertEqual(summary.quantity(value, unit), text)


class Tables(unittest.TestCase):
    results = [result(goal={"ratio": 1.2}, nothing=[600, 620, 610], culprit=[700, 740, 710], cupti=[900]),
               result(unit="bytes", goal={"plus": 128}, nothing=[0], culprit=[160])]

    def test_text(self):
        lines = [re.split(" {2,}", line.strip()) for line in summary.table(self.results, rows.SIDES).split("\n")]
        self.assertEqual(lines, [
            ["without", "culprit", "empty CUPTI callback", "goal"],
            ["a row", "610 ns (600 ns to 620 ns)", "710 ns (700 ns to 740 ns) 1.17x", "900 ns 1.50x", "at most 1.20x",
             "holds"],
            ["a row", "0 B", "160 B", "at most +128 B", "MISSED"]])

    def test_markdown(self):
        lines = summary.markdown(self.results, rows.SIDES, "a machine").split("\n")
        self.assertIn("a machine", lines[0])
        self.assertEqual(lines[2], "| | without | culprit | empty CUPTI callback | goal |")
        self.assertEqual(lines[3].count("|"), lines[2].count("|"))
        self.assertEqual(lines[4], "| a row | 610 ns | 1.17x | 1.50x | at most 1.20x |")
        self.assertEqual(lines[5], "| a row | 0 B | +160 B |  | at most +128 B |")


class Sides(unittest.TestCase):
    """perform() with a measurement that is not one."""

    def perform(self, sample, sides=("nothing", "culprit"), repeat=3, most=None):
        measurement = rows.Measurement("m", [rows.Row("a", "a row", {"ratio": 1.2}), rows.Row("b", "b row")], sides,
                                       sample, most or {})
        with contextlib.redirect_stderr(io.StringIO()):
            return bench.perform(measurement, None, repeat)

    def test_sides_take_turns_and_every_row_gets_each_sample(self):
        order = []

        def sample(_, side):
            order.append(side)
            return {"a": len(order), "b": 10 * len(order)}

        first, second = self.perform(sample, repeat=2)
        self.assertEqual(order, ["nothing", "culprit", "nothing", "culprit"])
        self.assertEqual(first["sides"]["nothing"]["samples"], [1, 3])
        self.assertEqual(second["sides"]["culprit"]["samples"], [20, 40])

    def test_the_compared_sides_may_be_repeated_more_often_and_sides_be_left_out(self):
        order = []
        measurement = rows.Measurement("m", [rows.Row("a", "a row")], ("nothing", "culprit", "cupti"), lambda _,
                                       side: order.append(side) or {"a": 1}, times=3)
        with contextlib.redirect_stderr(io.StringIO()):
            bench.perform(measurement, None, 2)
        self.assertEqual([order.count(side) for side in ("nothing", "culprit", "cupti")], [6, 6, 2])
        order.clear()
        with contextlib.redirect_stderr(io.StringIO()):
            results = bench.perform(measurement, None, 2, ["culprit"])
        self.assertEqual(set(order), {"culprit"})
        self.assertEqual(list(results[0]["sides"]), ["culprit"])

    def test_a_slow_side_gets_fewer_repetitions(self):
        order = []
        self.perform(lambda _, side: order.append(side) or {"a": 1, "b": 1}, sides=("nothing", "sanitizer", "history"),
                     repeat=5, most={"history": 3})
        self.assertEqual([order.count(side) for side in ("nothing", "sanitizer", "history")], [5, 2, 3])

    def test_a_missing_and_a_failing_side_are_told_and_not_tried_again(self):
        tried = []

        def sample(_, side):
            tried.append(side)
            if side == "cupti":
                raise rows.Missing("not installed")
            if side == "culprit":
                raise rows.Failed("exit code 3: out of memory")
            return {"a": 5, "b": 7}

        first, _ = self.perform(sample, sides=("nothing", "culprit", "cupti"))
        self.assertEqual([tried.count(side) for side in ("nothing", "culprit", "cupti")], [3, 1, 1])
        self.assertEqual(first["sides"]["culprit"]["failed"], "exit code 3: out of memory")
        self.assertIsNone(first["holds"])
        text = summary.table([first], rows.SIDES)
        self.assertIn("failed", text)
        self.assertIn("not installed", text)
        self.assertIn("failed", summary.markdown([first], rows.SIDES, ""))
        json.dumps(first)  # as --out writes it

    def test_a_row_that_was_not_printed_is_a_failure(self):
        first, second = self.perform(lambda *_: {"a": 1})
        self.assertIn("printed no b", first["sides"]["nothing"]["failed"])
        self.assertIn("printed no b", second["sides"]["nothing"]["failed"])


class Turns(unittest.TestCase):
    """Programs that take turns: a shell script that answers each line with a number, which it counts in a file that all
    of them share."""
    SCRIPT = 'for turn in 1 2 3; do read line || exit 9; echo >>"$0"; echo noise; echo "a=$(wc -l <"$0")"; done; {}'

    def perform(self, last, sides=("nothing", "culprit", "nostacks")):
        """`last`: what the script of a side does at its end."""
        with tempfile.TemporaryDirectory() as work:
            programs = rows.Program(lambda made, side: self.command(made, side, last))
            measurement = rows.Measurement("m", [rows.Row("a", "a row")], sides, programs, turns=3, times=2)
            with contextlib.redirect_stderr(io.StringIO()):
                return bench.perform(measurement, runner.Runner(work, work), 1)[0]["sides"]

    def command(self, made, side, last):
        if side == "nostacks":
            raise rows.Missing("not built")
        self.assertEqual(side in rows.OURS, True)
        # The stand-in for the library leaves a dump.
        end = last.get(side, 'echo >"${CULPRIT_OUT%/*}/a.dump"' if side == "culprit" else "true")
        return ["/bin/sh", "-c", self.SCRIPT.format(end), str(made.work / "turns")]

    def test_one_acts_at_a_time_and_each_comes_first_as_often(self):
        sides = self.perform({})
        # Of each of the two sets of processes three turns; the one that comes first in one comes last in the next.
        self.assertEqual(sides["nothing"]["samples"], [1, 4, 5, 7, 10, 11])
        self.assertEqual(sides["culprit"]["samples"], [2, 3, 6, 8, 9, 12])
        self.assertEqual(sides["nostacks"]["missing"], "not built")

    def test_one_that_fails_does_not_hinder_the_others(self):
        sides = self.perform({"culprit": "echo no GPU >&2; exit 3"})
        self.assertEqual(sides["nothing"]["samples"], [1, 4, 5, 7, 8, 9])
        self.assertRegex(sides["culprit"]["failed"], r"(?s)exit code 3: .*no GPU$")
        self.assertIn("left no dump", self.perform({"culprit": "true"})["culprit"]["failed"])

    def test_one_process_may_give_both_sides(self):
        script = ('for way in off on on off; do read line || exit 9; echo >>"$0"; echo "$way=$(wc -l <"$0")"; done; '
                  'echo >"${CULPRIT_OUT%/*}/a.dump"')
        for words, expected in ((["/bin/sh", "-c", script], {"nothing": [1, 4], "culprit": [2, 3]}),
                                (["/bin/sh", "-c", "exit 4"], None)):
            with tempfile.TemporaryDirectory() as work:
                made = runner.Runner(work, work)
                sample = rows.Switched(lambda made, side, words=words: [*words, str(made.work / "turns")], "a")
                measurement = rows.Measurement("m", [rows.Row("a", "a row")], ("nothing", "culprit"), sample, turns=2)
                with contextlib.redirect_stderr(io.StringIO()):
                    sides = bench.perform(measurement, made, 1)[0]["sides"]
            for side in sides:
                if expected:
                    self.assertEqual(sides[side]["samples"], expected[side])
                else:
                    self.assertIn("exit code 4", sides[side]["failed"])

    def test_one_that_hangs_is_ended(self):
        with tempfile.TemporaryDirectory() as work:
            made = runner.Runner(work, work)
            begin = time.monotonic()
            command = ["/bin/sh", "-c", "read line; echo a=1; sleep 1000 & sleep 1000"]
            samples, problems = made.in_turns({"nothing": command}, timeout=0.3)
            self.assertLess(time.monotonic() - begin, 60)
            self.assertEqual(samples, {"nothing": {"a": [1.0]}})
            self.assertRegex(str(problems["nothing"]), "not finished")


class Runs(unittest.TestCase):
    def test_what_a_program_prints_becomes_values(self):
        with tempfile.TemporaryDirectory() as work:
            command = ["/bin/sh", "-c", "echo async=12.5; echo noise; echo live_anon=4096"]
            values = runner.Runner(work, work).run(command, "nothing")
        self.assertEqual((values["async"], values["live_anon"], values["dump_bytes"]), (12.5, 4096, 0))
        self.assertGreater(values["wall_ns"], 0)
        self.assertGreater(values["peak_bytes"], 0)

    def test_a_program_that_fails_tells_its_last_words(self):
        with tempfile.TemporaryDirectory() as work, self.assertRaisesRegex(rows.Failed, "exit code 3: no GPU"):
            runner.Runner(work, work).run(["/bin/sh", "-c", "echo no GPU >&2; exit 3"], "nothing")

    def test_a_program_that_hangs_is_ended_with_its_children(self):
        with tempfile.TemporaryDirectory() as work, self.assertRaisesRegex(rows.Failed, "not finished after 0.05 s"):
            runner.Runner(work, work).run(["/bin/sh", "-c", "sleep 1000 & sleep 1000"], "nothing", timeout=0.05)

    def test_a_side_that_is_not_there_is_missing(self):
        with tempfile.TemporaryDirectory() as work:
            with self.assertRaises(rows.Missing):
                runner.Runner(work, work).run(["/bin/true"], "cupti")
            with self.assertRaises(rows.Missing):
                runner.Runner(work, work).program("bench_driver")


class Interruption(unittest.TestCase):
    """The first measurement ends at once, the second one never, and leaves a file when it began."""
    PROGRAM = ('#!/bin/sh\n'
               'case "$1" in\n'
               'live) : >"$0.began"; sleep 1000;;\n'
               '*) echo async=10; echo async64=20; echo asyncN=11;;\n'
               'esac\n')

    def test_what_was_measured_by_then_is_kept(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with tempfile.TemporaryDirectory() as tree:
                for folder in ("bench", "simcuda"):
                    os.mkdir(os.path.join(tree, folder))
                program, out = os.path.join(tree, "bench/bench_driver"), os.path.join(tree, "out.json")
                with open(program, "w", encoding="utf-8", opener=lambda path,
                          flags: os.open(path, flags, 0o755)) as file:
                    file.write(self.PROGRAM)
                with subprocess.Popen([sys.executable, bench.__file__, "--tree", tree, "--quick", "--only",
                                       "free1,memory-each", "--sides", "nothing",
                                       "--repeat", "1", "--out", out], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True) as running:
                    while not os.path.exists(program + ".began") and running.poll() is None:
                        time.sleep(0.01)
                    running.send_signal(number)
                    text, errors = running.communicate()
                self.assertEqual(running.returncode, 130)
                self.assertIn("interrupted", errors)
                self.assertRegex(text, "pair, driver's calls free +10 ns")
                with open(out, encoding="utf-8") as file:
                    kept = json.load(file)
                self.assertTrue(kept["interrupted"])
                self.assertEqual([row["row"] for row in kept["rows"]], ["free1"])
                while any(program.encode() in self.words_of(path) for path in glob.glob("/proc/[0-9]*/cmdline")):
                    time.sleep(0.01)  # until it is ended, and for ever if it is not

    @staticmethod
    def words_of(path):
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return b""


class Rows(unittest.TestCase):
    def test_names_are_unique(self):
        for quick in (False, True):
            names = [row.name for measurement in rows.measurements(quick) for row in measurement.rows]
            self.assertEqual(len(names), len(set(names)))
            self.assertTrue(all(side in rows.SIDES for measurement in rows.measurements(quick)
                                for side in measurement.sides))


if __name__ == "__main__":
    unittest.main()
