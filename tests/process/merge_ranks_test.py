#!/usr/bin/env python3
"""`culprit merge` as the ranks of a launcher: merge_ranks_test.py SOURCE BUILD

The result has the same bytes as that of one process, whatever the number of ranks, and whichever of them dies.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from build_tree import BUILD, ENVIRONMENT

CULPRIT = str(BUILD / "bin/culprit")
PLUGIN = BUILD / "lib/culprit/culprit_mpi.so"
MPIRUN = shutil.which("mpirun")
LONGEST_SECONDS = 120
DUMPS = 24


def words_of(dumps, output, *more):
    return [CULPRIT, "merge", str(dumps), "-o", str(output), "--jobs", "1", "--wait", "3s", *more]


def start(words, rank, size, **more):
    """A rank of a launcher that tells no id of the job."""
    environment = {**ENVIRONMENT, "CULPRIT_MPI": "off", "PMI_RANK": str(rank), "PMI_SIZE": str(size), **more}
    return subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, cwd=more.get("PWD"))


def end(ranks):
    """(exit code, standard error) of each."""
    ends = []
    for rank in ranks:
        out, err = rank.communicate(timeout=LONGEST_SECONDS)
        assert out == "", out
        ends.append((rank.returncode, err))
    return ends


def wait_for(found):
    limit = time.monotonic() + LONGEST_SECONDS
    while not found():
        assert time.monotonic() < limit
        time.sleep(0.01)


class MergeOnRanks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory()
        cls.dumps = pathlib.Path(cls.kept.name) / "dumps"
        cls.dumps.mkdir()
        subprocess.run([BUILD / "bench/many_dumps", cls.dumps, str(DUMPS), "300", "40", "2"], check=True, timeout=60)
        alone = pathlib.Path(cls.kept.name) / "alone.json"
        subprocess.run([CULPRIT, "merge", str(cls.dumps), "-o", str(alone)], env=ENVIRONMENT, check=True,
                       timeout=LONGEST_SECONDS)
        cls.expected = alone.read_bytes()

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.output = self.folder / "job.json"

    def check_result(self, output=None):
        # assertEqual would print megabytes.
        self.assertTrue((output or self.output).read_bytes() == self.expected)

    def check_nothing_left(self, *outputs):
        self.assertEqual(sorted(self.folder.iterdir()), sorted(outputs or [self.output]))

    def test_equal_bytes(self):
        for size in 2, 3, 5, 16:
            with self.subTest(size=size):
                self.output.unlink(missing_ok=True)
                ends = end([start(words_of(self.dumps, self.output), rank, size) for rank in reversed(range(size))])
                self.assertEqual(ends, [(0, "")] * size)
                self.check_result()
                self.check_nothing_left()

    def test_mpirun(self):
        if MPIRUN is None:
            self.skipTest("no mpirun; scripts/install-packages.sh openmpi-bin brings it")
        if not PLUGIN.exists():
            print("SKIPPED: no MPI plugin; scripts/install-packages.sh libopenmpi-dev and a new build bring it")
        for size in 1, 2, 3, 5, 16:
            for mpi in ["", "off"] if PLUGIN.exists() else ["off"]:
                with self.subTest(size=size, mpi=mpi):
                    self.output.unlink(missing_ok=True)
                    run = subprocess.run(
                        [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", str(size),
                         *words_of(self.dumps, self.output, "--verbose")],
                        env={**ENVIRONMENT, "CULPRIT_MPI": mpi}, stdin=subprocess.DEVNULL, capture_output=True,
                        text=True, timeout=LONGEST_SECONDS, check=False)
                    self.assertEqual(run.returncode, 0, run.stderr)
                    self.assertEqual(run.stderr.count("the ranks use MPI"), size if size > 1 and mpi == "" else 0)
                    self.assertEqual(run.stderr.count("the ranks use files"), size if size > 1 and mpi else 0)
                    self.check_result()
                    self.check_nothing_left()

    def test_an_unusable_plugin(self):
        no_plugin = self.folder / "plugin.so"
        no_plugin.write_text("no library", encoding="utf-8")
        ends = end([start(words_of(self.dumps, self.output), rank, 2, CULPRIT_MPI=str(no_plugin)) for rank in range(2)])
        self.assertEqual([code for code, _ in ends], [0, 0])
        self.assertIn("the ranks use files instead of MPI", ends[0][1])
        self.assertEqual(ends[1][1], "")
        self.check_result()

    def test_a_rank_that_never_starts(self):
        ends = end([start(words_of(self.dumps, self.output), rank, 5) for rank in (0, 1, 3, 4)])
        self.assertEqual([code for code, _ in ends], [0] * 4)
        # Rank 3 passes its part on through rank 2, so that rank 0 asks it.
        self.assertIn("rank 2 of 5 gave no part: it gave no sign of life for 3", ends[0][1])
        self.assertIn("rank 0 reads the dumps of rank 2 itself", ends[0][1])
        self.check_result()
        self.check_nothing_left()

    def test_a_rank_that_is_killed(self):
        # Rank 2 waits for rank 3, which comes only after it has died.
        words = words_of(self.dumps, self.output)
        killed = start(words, 2, 4)
        wait_for(lambda: list(self.folder.glob("*/rank3.ask.*")))
        killed.send_signal(signal.SIGKILL)
        ranks = [start(words, rank, 4) for rank in (0, 1, 3)]
        ends = end(ranks)
        self.assertEqual([code for code, _ in ends], [0] * 3)
        self.assertIn("rank 2 of 4 gave no part: it gave no sign of life", ends[0][1])
        self.assertIn("rank 0 reads the dumps of rank 2 itself", ends[0][1])
        end([killed])
        self.check_result()
        self.check_nothing_left()

    def test_rank_0_is_killed(self):
        words = words_of(self.dumps, self.output)
        zero = start(words, 0, 2)
        wait_for(lambda: list(self.folder.glob("*/rank1.ask.*")))
        zero.send_signal(signal.SIGKILL)
        code, err = end([start(words, 1, 2)])[0]
        self.assertEqual(code, 3)
        self.assertIn("rank 0 ended before it took the part of rank 1", err)
        end([zero])
        self.assertFalse(self.output.exists())
        # Files of that run are no hindrance to the next one, and go with it.
        self.assertEqual(end([start(words, rank, 2) for rank in range(2)]), [(0, "")] * 2)
        self.check_result()
        self.check_nothing_left()

    def test_more_ranks_than_dumps(self):
        few = self.folder / "few"
        few.mkdir()
        for rank in range(3):
            shutil.copy(self.dumps / f"rank000{rank}.dump", few)
        alone = self.folder / "alone.json"
        subprocess.run([*words_of(few, alone), "--alone"], env=ENVIRONMENT, check=True, timeout=LONGEST_SECONDS)
        self.assertEqual(end([start(words_of(few, self.output), rank, 7) for rank in range(7)]), [(0, "")] * 7)
        self.assertTrue(self.output.read_bytes() == alone.read_bytes())

    def test_unreadable_dumps(self):
        bad = self.folder / "bad"
        shutil.copytree(self.dumps, bad, ignore=shutil.ignore_patterns("*.so"))
        for rank in 3, 5, 6:
            path = bad / f"rank000{rank}.dump"
            path.write_bytes(path.read_bytes()[:5000])
        alone = subprocess.run([*words_of(bad, self.output)], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
        self.assertEqual(alone.returncode, 3)
        self.assertEqual(alone.stderr.count("rank000"), 3, alone.stderr)
        ends = end([start(words_of(bad, self.output), rank, 4) for rank in range(4)])
        self.assertEqual(ends, [(3, alone.stderr), (0, ""), (0, ""), (0, "")])
        self.assertFalse(self.output.exists())

    def test_two_jobs_in_one_folder(self):
        outputs = [self.folder / "one.json", self.folder / "other.json"]
        # The last two have the same output, of two jobs of a launcher that tells its id.
        jobs = [(outputs[0], ""), (outputs[1], ""), (self.output, "one"), (self.output, "other")]
        ranks = [start(words_of(self.dumps, output), rank, 3, PMIX_NAMESPACE=job)
                 for rank in range(3) for output, job in jobs]
        self.assertEqual(end(ranks), [(0, "")] * len(ranks))
        for output in {output for output, _ in jobs}:
            self.check_result(output)
        self.check_nothing_left(self.output, *outputs)

    def test_a_rank_that_sees_other_files(self):
        # A folder of the same name that is another one on the second machine.
        for name, count in ("here", DUMPS), ("there", DUMPS - 1):
            folder = self.folder / name / "dumps"
            folder.mkdir(parents=True)
            for rank in range(count):
                os.link(self.dumps / f"rank{rank:04}.dump", folder / f"rank{rank:04}.dump")
        words = words_of("dumps", self.output)
        alone = self.folder / "alone.json"
        subprocess.run([*words_of("dumps", alone), "--alone"], env=ENVIRONMENT, check=True, timeout=LONGEST_SECONDS,
                       cwd=self.folder / "here")
        ends = end([start(words, rank, 2, PWD=str(self.folder / name)) for rank, name in enumerate(("here", "there"))])
        self.assertEqual([code for code, _ in ends], [0, 0])
        self.assertIn("rank 1 of 2 gave no part: it was given other dumps, or sees other files", ends[0][1])
        self.assertTrue(self.output.read_bytes() == alone.read_bytes())

    def test_alone(self):
        self.assertEqual(end([start(words_of(self.dumps, self.output, "--alone"), 1, 4)]), [(0, "")])
        self.check_result()


if __name__ == "__main__":
    unittest.main()
