#!/usr/bin/env python3
"""The formats of other profilers, of dumps of the simulated driver, read by those: profilers_test.py SOURCE BUILD

`go tool pprof` is the machine's; the schema of Perfetto comes from scripts/format-readers.sh. A missing reader is
skipped, with a message.
"""
import importlib
import json
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from build_tree import BUILD, ENVIRONMENT, SOURCE, subject

sys.path[:0] = [str(SOURCE / "tests" / "support"), str(SOURCE / "build" / "deps" / "format-readers")]
import trace_readers  # noqa: E402


class Profilers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="culprit-profilers-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_in_folder(self, *words, **more):
        done = subprocess.run([str(word) for word in words], cwd=self.folder, env={**ENVIRONMENT, **more},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def culprit(self, *words, **more):
        return self.run_in_folder(BUILD / "bin" / "culprit", *words, **more)

    def dump(self, name, *program, **more):
        self.culprit("run", "--out", self.folder / name, "--", subject(program[0]), *program[1:], **more)
        return self.folder / name

    def report(self, output, *dumps):
        done = self.culprit("report", "-o", self.folder / output, *dumps)
        return self.folder / output, done.stderr

    def json_of(self, *dumps):
        return json.loads(self.culprit("report", "--format", "json", *dumps).stdout)

    def test_pprof_compares_two_runs(self):
        go = shutil.which("go")
        if not go:
            self.skipTest("no go")
        # The same leak of 1000 bytes in both, with another process, other addresses and another line of leaks beside.
        old, _ = self.report("old.pb.gz", self.dump("old.dump", "rank_leak"))
        new, _ = self.report("new.pb.gz", self.dump("new.dump", "rank_leak", OMPI_COMM_WORLD_RANK="2"))
        other, _ = self.report("other.pb.gz", self.dump("other.dump", "peak"))

        def compared(base, profile, index):
            return self.run_in_folder(go, "tool", "pprof", "-top", "-unit=B", f"-sample_index={index}", "-diff_base",
                                      base, profile).stdout

        self.assertRegex(compared(old, new, "leaked_bytes"), r"\n +49000B .* leak_here\n")
        self.assertNotIn("leak_here", compared(old, new, "leaked_count"))
        self.assertNotIn("leak_here", compared(new, new, "leaked_bytes"))
        gone = compared(new, other, "leaked_bytes")
        self.assertRegex(gone, r"Type: leaked_bytes")
        self.assertRegex(gone, r"of \d+B total")

    def schema(self):
        try:
            return importlib.import_module(trace_readers.SCHEMA)
        except ImportError as error:
            raise unittest.SkipTest(f"{error}: scripts/format-readers.sh brings it") from error

    def test_perfetto_shows_marks_leaks_and_use(self):
        schema = self.schema()
        dump = self.dump("marked.dump", "marked", "epochs")
        report = self.json_of(dump)
        trace = trace_readers.PerfettoTrace(schema, self.report("marked.pftrace", dump)[0])
        trace.check(self)
        (process,) = trace.processes()
        self.assertEqual((process.pid, list(process.cmdline)), (report["process"]["pid"], report["process"]["command"]))
        self.assertEqual([one.name for one in trace.instants("marks") if "last of" not in one.name],
                         [mark["name"] for mark in report["marks"] if mark["kind"] != "range"])
        slices = trace.slices("not freed")
        self.assertEqual(sum(one.args["bytes"] for one in slices), report["summary"]["leaked_bytes"])
        self.assertRegex(slices[0].name, r"^marked\.cpp:\d+  allocate$")
        use = trace.counters()["GPU 0: live bytes, highest"]
        self.assertEqual(max(value for _, value in use), report["devices"][0]["peak_live_bytes"])
        self.assertEqual(use[-1][1], report["devices"][0]["live_bytes"])

    def test_perfetto_has_a_track_for_each_rank(self):
        schema = self.schema()
        dumps = [self.dump(f"{rank}.dump", "rank_leak", OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="3")
                 for rank in range(3)]
        trace = trace_readers.PerfettoTrace(schema, self.report("job.pftrace", *dumps)[0])
        trace.check(self)
        self.assertEqual(len(trace.processes()), 3)
        sizes = {trace.tracks[trace.tracks[one.track].parent_uuid].name[:6]: one.args["bytes"]
                 for one in trace.slices("not freed")}
        self.assertEqual(sizes, {"rank 0": 1000, "rank 1": 1000, "rank 2": 50000})
        # A merged file has only what each process has of a stack.
        self.culprit("merge", *dumps, "-o", self.folder / "job.json")
        merged, message = self.report("merged.pftrace", self.folder / "job.json")
        self.assertIn("a merged report has no use over time", message)
        trace = trace_readers.PerfettoTrace(schema, merged)
        trace.check(self)
        self.assertEqual(sorted(one.args["bytes"] for one in trace.slices("not freed")), [1000, 1000, 50000])

    def test_memory_viz_has_each_allocation(self):
        dump = self.dump("driver_memory.dump", "driver_memory")
        report = self.json_of(dump)
        snapshot = pickle.loads(self.report("driver_memory.pickle", dump)[0].read_bytes())
        addresses = trace_readers.check_snapshot(self, snapshot)
        groups = [one for one in report["leaks"] + report["library"]
                  if one["device"] is not None and one["bytes"] and one["cause"] != "context-teardown"]
        self.assertEqual(len(snapshot["segments"]), sum(one["count"] for one in groups))
        self.assertEqual(set(addresses.values()), {1})
        handles = {(one["device"], int(handle, 16)) for one in groups for handle in one["handles"]}
        self.assertTrue(handles & set(addresses))

    def test_memory_viz_numbers_the_gpus_of_a_job(self):
        dumps = [self.dump(f"{rank}.dump", "rank_leak", OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2")
                 for rank in range(2)]
        snapshot = pickle.loads(self.report("job.pickle", *dumps)[0].read_bytes())
        trace_readers.check_snapshot(self, snapshot)
        self.assertEqual([segment["device"] for segment in snapshot["segments"]], [0, 1])
        for rank, segment in enumerate(snapshot["segments"]):
            self.assertTrue(re.match(rf"rank {rank}, process \d+ on .*, GPU 0$", segment["frames"][-1]["name"]))

    def test_memory_viz_of_many_allocations(self):
        # More than Python's own pickles append at once, and more values than one byte counts.
        dump = self.dump("many.dump", "many_live", "2500", "3")
        snapshot = pickle.loads(self.report("many.pickle", dump)[0].read_bytes())
        addresses = trace_readers.check_snapshot(self, snapshot)
        self.assertGreaterEqual(len(addresses), 2500)


if __name__ == "__main__":
    unittest.main()
