#!/usr/bin/env python3
"""The golden files in the formats of others, read by what is meant to read them: formats_test.py GOLDEN_DIR READERS

READERS is what scripts/format-readers.sh made: packages, the official schemas, flamegraph.pl. `go tool pprof` and
xmllint are the machine's. A missing reader is skipped, with a message.
"""
import collections
import copy
import gzip
import importlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3, "support"))
import trace_readers

GOLDEN, READERS = sys.argv[1:3]
del sys.argv[1:3]
sys.path.insert(0, READERS)


def reader(name):
    """The module, or a skipped test."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise unittest.SkipTest(f"{error}: scripts/format-readers.sh brings it") from error


def tool(name):
    """A file that scripts/format-readers.sh brings, or a skipped test."""
    file = os.path.join(READERS, name)
    if not os.path.exists(file):
        raise unittest.SkipTest(f"no {name}: scripts/format-readers.sh brings it")
    return file


def path(name):
    return os.path.join(GOLDEN, name)


class Formats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(path("everything.json"), encoding="utf-8") as file:
            cls.report = json.load(file)
        cls.leaks = cls.report["leaks"]

    def check_names(self, names):
        """Each leak has a name of its own: its id, and where several leaks have one id, id, id-2 and so on."""
        self.assertEqual([name.split("-")[0] for name in names], [leak["id"] for leak in self.leaks])
        for identity, count in collections.Counter(leak["id"] for leak in self.leaks).items():
            expected = {identity} | {f"{identity}-{number}" for number in range(2, count + 1)}
            self.assertEqual({name for name in names if name.startswith(identity)}, expected)

    def test_junit_has_a_case_for_each_leak_and_error(self):
        suite = xml.etree.ElementTree.parse(path("everything.junit.xml")).getroot().find("testsuite")
        cases = suite.findall("testcase")
        self.assertEqual(len(cases), len(self.leaks) + len(self.report["errors"]))
        self.assertEqual(int(suite.get("tests")), len(cases))
        self.assertEqual(int(suite.get("failures")), len(suite.findall("testcase/failure")))
        names = [case.get("name") for case in cases]
        self.assertEqual(len(set(names)), len(names))
        self.check_names([re.search(r"[0-9a-f]{16}(-\d+)?", name)[0] for name in names[: len(self.leaks)]])

    def test_folded_has_all_bytes(self):
        with open(path("everything.folded"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in lines), self.report["summary"]["leaked_bytes"])
        self.assertTrue(all(line.startswith("main;") for line in lines))

    def test_sarif_has_a_result_for_each_leak_and_error(self):
        with open(path("everything.sarif"), encoding="utf-8") as file:
            sarif = json.load(file)
        run = sarif["runs"][0]
        self.assertEqual(len(run["results"]), len(self.leaks) + len(self.report["errors"]))
        rules = run["tool"]["driver"]["rules"]
        for result in run["results"]:
            self.assertEqual(rules[result["ruleIndex"]]["id"], result["ruleId"])
        prints = [result["partialFingerprints"]["culprit/v1"] for result in run["results"][: len(self.leaks)]]
        self.check_names(prints)
        refused = next(one for one in run["results"] if one["ruleId"] == "failed-free")
        self.assertIn("free refused here", refused["relatedLocations"][0]["message"]["text"])

    def test_sarif_is_valid(self):
        schema = tool("sarif-schema-2.1.0.json")
        with open(schema, encoding="utf-8") as file, open(path("everything.sarif"), encoding="utf-8") as sarif:
            validator = reader("jsonschema").Draft7Validator(json.load(file))
            report = json.load(sarif)
        self.assertEqual([error.message for error in validator.iter_errors(report)], [])
        report["runs"][0]["results"][0]["level"] = "fatal"
        self.assertNotEqual(list(validator.iter_errors(report)), [])

    def test_sarif_is_read_by_a_typed_model(self):
        model = reader("sarif_pydantic")
        with open(path("everything.sarif"), encoding="utf-8") as file:
            sarif = json.load(file)
        results = model.Sarif.model_validate(sarif).runs[0].results
        self.check_names([result.partial_fingerprints["culprit/v1"] for result in results[: len(self.leaks)]])
        place = results[0].locations[0].physical_location
        self.assertTrue(place.artifact_location.uri.endswith("/src/buffer.h"))
        self.assertEqual(place.region.start_line, 12)
        broken = copy.deepcopy(sarif)
        broken["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = "twelve"
        with self.assertRaises(ValueError):
            model.Sarif.model_validate(broken)

    def test_junit_is_read_by_junitparser(self):
        suites = reader("junitparser").JUnitXml.fromfile(path("everything.junit.xml"))
        cases = [case for suite in suites for case in suite]
        self.assertEqual(len(cases), len(self.leaks) + len(self.report["errors"]))
        self.assertEqual(suites.failures, sum(bool(case.result) for case in cases))
        self.assertTrue(all(len(case.result) == 1 and case.result[0].message for case in cases))

    def test_junit_is_valid(self):
        schema = tool("junit-10.xsd")
        if not shutil.which("xmllint"):
            self.skipTest("no xmllint")

        def validated(*report, **options):
            return subprocess.run(["xmllint", "--noout", "--schema", schema, *report], stderr=subprocess.PIPE,
                                  text=True, timeout=60, check=False, **options)

        done = validated(path("everything.junit.xml"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(validated("-", input="<testsuites><testsuite/></testsuites>").returncode, 0)

    def test_folded_is_drawn_by_flamegraph(self):
        if not shutil.which("perl"):
            self.skipTest("no perl")
        with open(path("everything.folded"), encoding="utf-8") as folded:
            done = subprocess.run(["perl", tool("flamegraph.pl"), "--countname=bytes"], stdin=folded,
                                  capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        boxes = xml.etree.ElementTree.fromstring(done.stdout).iter("{http://www.w3.org/2000/svg}title")
        bytes_of = {}
        for box in boxes:
            name, size = re.fullmatch(r"(.*) \(([0-9,]+) bytes, [0-9.]+%\)", box.text).groups()
            bytes_of[name] = bytes_of.get(name, 0) + int(size.replace(",", ""))
        leaked = self.report["summary"]["leaked_bytes"]
        self.assertEqual((bytes_of["all"], bytes_of["main"], bytes_of["cudaMalloc"]), (leaked,) * 3)
        self.assertEqual(bytes_of["third_solve+0x4c"], 3 << 28)

    def test_pprof_is_gzip(self):
        with gzip.open(path("everything.pprof.gz")) as file:  # checks the sum and the length
            self.assertIn(b"leaked_bytes", file.read())

    def pprof(self, *options):
        go = shutil.which("go")
        if not go:
            self.skipTest("no go")
        # (-unit=B also names the unit of a count.)
        command = [go, "tool", "pprof", "-unit=B", *options, path("everything.pprof.gz")]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_pprof_top(self):
        top = self.pprof("-top")
        self.assertIn("Type: leaked_bytes", top)
        self.assertIn(f"of {self.report['summary']['leaked_bytes']}B total", top)
        self.assertRegex(top, r"805306368B.*third_solve")
        count = self.pprof("-top", "-sample_index=leaked_count")
        self.assertIn(f"of {self.report['summary']['leaked_allocations']}B total", count)

    def test_pprof_labels(self):
        tags = self.pprof("-tags")
        for label in ("cause:", "context-teardown", "device:", "GPU 0"):
            self.assertIn(label, tags)

    def test_pprof_diff_of_a_profile_with_itself_is_nothing(self):
        same = self.pprof("-top", "-diff_base=" + path("everything.pprof.gz"))
        self.assertNotIn("third_solve", same)

    def test_perfetto_has_the_form_of_its_schema(self):
        trace = trace_readers.PerfettoTrace(reader(trace_readers.SCHEMA), path("everything.pftrace"))
        trace.check(self)
        slices = trace.slices("not freed")
        self.assertEqual(sorted((*(one.args[key] for key in ("id", "cause", "bytes", "count")), one.end - one.begin)
                                for one in slices),
                         sorted((*(leak[key] for key in ("id", "cause", "bytes", "count")),
                                 leak["last_ns"] - leak["first_ns"]) for leak in self.leaks))
        self.assertTrue(all(one.args["stack"] for one in slices))
        self.assertEqual(len(trace.instants("bad frees")), len(self.report["errors"]))
        values = [value for _, value in trace.counters()["GPU 0: live bytes, highest"]]
        self.assertEqual(max(values), self.report["devices"][0]["time_line"]["peak_bytes"])
        self.assertIn("GPU 0: in use, all processes (driver)", trace.counters())

    def test_memory_viz_has_the_fields_of_a_snapshot(self):
        with open(path("everything.pickle"), "rb") as file:
            snapshot = pickle.load(file)
        trace_readers.check_snapshot(self, snapshot)
        on_gpu = [leak for leak in self.leaks if leak["cause"] != "context-teardown"]
        held = on_gpu + self.report["library"]
        self.assertEqual(sum(segment["total_size"] for segment in snapshot["segments"]),
                         sum(leak["bytes"] for leak in held))
        self.assertEqual(len(snapshot["segments"]), sum(leak["count"] for leak in held))
        frames = snapshot["segments"][0]["blocks"][0]["frames"]
        self.assertEqual((frames[0]["name"], frames[0]["line"]),
                         (held[0]["stack"][0]["function"], held[0]["stack"][0]["line"]))


if __name__ == "__main__":
    unittest.main()
