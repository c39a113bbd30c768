#!/usr/bin/env python3
"""The Python package and the pytest plugin, on the simulated driver: package_test.py BUILD_FOLDER SOURCE_FOLDER"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
import reports  # noqa: E402

CULPRIT = os.path.join(BUILD, "bin", "culprit")
LIBRARY = os.path.join(BUILD, "lib", "libculprit.so")
PACKAGE = os.path.join(SOURCE, "interpose", "python")


def environment(**more):
    result = {key: value for key, value in os.environ.items() if not key.startswith("CULPRIT_")}
    result.pop("NVTX_INJECTION64_PATH", None)
    result.update(PYTHONPATH=f"{PACKAGE}:{HERE}", LD_LIBRARY_PATH=os.path.join(BUILD, "simcuda"),
                  PYTHONDONTWRITEBYTECODE="1", NO_COLOR="1", DEBUGINFOD_URLS="", **more)
    return result


def python_with(modules):
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", f"import {modules}"], capture_output=True, timeout=60,
                          check=False).returncode == 0:
            return python
    return None


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="culprit-python-")
        self.addCleanup(shutil.rmtree, self.folder)

    def run_python(self, text, *arguments, preload=True, python=sys.executable, options=(), **more):
        if preload:
            more.update(LD_PRELOAD=LIBRARY, CULPRIT_QUIET="1", CULPRIT_OUT=os.path.join(self.folder, "%p.dump"))
        command = [python, *options, *arguments] if text is None else [python, *options, "-c", text, *arguments]
        return subprocess.run(command, env=environment(**more), cwd=self.folder, capture_output=True, text=True,
                              timeout=60, check=False)

    def dumps(self):
        return [os.path.join(self.folder, name) for name in os.listdir(self.folder) if name.endswith(".dump")]

    def report(self, dump, *options):
        return reports.read_report(CULPRIT, dump, *options)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)


class Package(InFolder):
    def test_marks_moments_snapshot_and_live_bytes(self):
        done = self.run_python("""
import culprit, fake_cuda
assert culprit.loaded()
assert culprit.live_bytes() == 0 and culprit.snapshot("none.dump") is None
kept = [fake_cuda.Memory(1001)]
with culprit.mark("epoch 3"):
    kept.append(fake_cuda.Memory(1002))
culprit.mark("moment")
kept.append(fake_cuda.Memory(1003))
assert culprit.live_bytes() == 3006
assert culprit.snapshot("then.dump") == "then.dump"
kept.pop()
assert culprit.live_bytes() == 2003
culprit.stop()
kept.append(fake_cuda.Memory(9999))
culprit.start()
assert culprit.live_bytes() == 2003
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        then = os.path.join(self.folder, "then.dump")
        report = self.report(then)
        marks = {group["bytes"]: [share["mark"] for share in group.get("marks", [])] for group in report["leaks"]}
        self.assertEqual(marks, {1001: [], 1002: ["epoch 3"], 1003: []})
        self.assertEqual(self.report(then, "--since-mark", "moment")["summary"]["leaked_bytes"], 1003)

    def test_snapshot_replaces_no_other_file(self):
        self.write("letter.txt", "dear")
        done = self.run_python("""
import culprit, fake_cuda
memory = fake_cuda.Memory(1)
for path, error in ("letter.txt", FileExistsError), ("no/such/folder", FileNotFoundError):
    try:
        culprit.snapshot(path)
        raise SystemExit("no error: " + path)
    except error:
        pass
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.folder, "letter.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "dear")

    def test_check_raises_with_the_report(self):
        done = self.run_python("""
import culprit, fake_cuda, threading
before = fake_cuda.Memory(7000)
with culprit.check():
    inner = fake_cuda.Memory(5000)
    inner.free()
    before.free()
with culprit.check(allow="4K"):
    allowed = fake_cuda.Memory(4096)
class Cycle:
    pass
with culprit.check():          # only the collector can free this
    cycle = Cycle()
    cycle.itself, cycle.memory = cycle, fake_cuda.Memory(3000)
    del cycle
def leak_here():
    return fake_cuda.Memory(1234)
try:
    with culprit.check():
        kept = leak_here()
        raise KeyError("not hidden")
except KeyError:
    pass
try:
    with culprit.check():
        later = leak_here()
        threading.Thread(target=lambda: globals().update(other=leak_here())).start()
        while "other" not in globals():
            pass
except culprit.LeakError as error:
    assert error.leaked_bytes == 2468 and error.leaked_allocations == 2, error
    assert "leak_here" in str(error) and "6.84 KiB" not in str(error), error
    print(error)
else:
    raise SystemExit("no LeakError")
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("since mark", done.stdout)
        self.assertIn("2.41 KiB in 2 allocations", done.stdout)
        self.assertNotIn("next ", done.stdout)  # the snapshot is gone

    def test_a_check_is_not_known_where_nothing_can_be_recorded(self):
        done = self.run_python("""
import os
os.environ["CULPRIT_OUT"] = "/proc/nowhere/a.dump"
import fake_cuda, culprit
try:
    with culprit.check():
        kept = fake_cuda.Memory(1234)
except culprit.NotKnownError as error:
    assert "no dump could be made" in str(error), error
else:
    raise SystemExit("no NotKnownError")
""")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_nothing_happens_without_the_library(self):
        done = self.run_python("""
import culprit
assert not culprit.loaded() and culprit.live_bytes() == 0 and culprit.snapshot("x") is None
culprit.start(); culprit.stop(); culprit.mark("x")
with culprit.mark("y"):
    pass
with culprit.check():
    pass
""", preload=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("culprit is not loaded: nothing is checked", done.stderr)

    def test_sizes(self):
        done = self.run_python("""
from culprit._check import parse_bytes
sizes = 7, "8", "9b", "2K", "1.5KiB", "4MB", "1 GB"
assert [parse_bytes(size) for size in sizes] == [7, 8, 9, 2048, 1536, 4 << 20, 1 << 30]
for bad in "", "x", "4Q", "-1", "1KBB":
    try:
        parse_bytes(bad)
        raise SystemExit(bad)
    except ValueError:
        pass
""", preload=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_versions_agree(self):
        with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as file:
            version = re.search(r"project\(culprit VERSION ([0-9.]+)", file.read())[1]
        with open(os.path.join(PACKAGE, "pyproject.toml"), encoding="utf-8") as file:
            self.assertIn(f'version = "{version}"', file.read())
        self.assertEqual(self.run_python("import culprit; print(culprit.__version__)", preload=False).stdout,
                         version + "\n")


TESTS = """
import fake_cuda, pytest

@pytest.fixture(scope="module")
def table():
    yield fake_cuda.Memory(100000)

@pytest.fixture
def buffer():
    memory = fake_cuda.Memory(2000)
    yield memory
    memory.free()

kept = []

def test_clean(buffer):
    fake_cuda.Memory(10).free()

def leak_here(size):
    kept.append(fake_cuda.Memory(size))

def test_leaks():
    leak_here(11001)

def test_uses_a_fixture_of_the_module(table, buffer):
    pass

def test_leaks_beside_a_fixture(table):
    leak_here(22002)

@pytest.mark.culprit(allow="4K")
def test_may_keep_a_little():
    leak_here(4096)

@pytest.mark.culprit(check=False)
def test_is_not_looked_at():
    leak_here(50000)

def test_fails_anyway():
    leak_here(1)
    assert False, "its own reason"

def test_skips():
    pytest.skip("why")
"""


@unittest.skipUnless(python_with("pytest"), "no pytest")
class Plugin(InFolder):
    def run_pytest(self, *options, **more):
        self.write("test_it.py", TESTS)
        return self.run_python(None, "-m", "pytest", "-p", "culprit.pytest_plugin", "-p", "no:cacheprovider", "-rA",
                               *options,
                               python=python_with("pytest, xdist") if "-n" in options else python_with("pytest"),
                               **more)

    def check_outcomes(self, done):
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"3 failed, 4 passed, 1 skipped")
        for name in "test_leaks", "test_leaks_beside_a_fixture", "test_fails_anyway":
            self.assertRegex(done.stdout, rf"FAILED test_it.py::{name}\b")
        self.assertIn("STILL HELD 10.7 KiB in 1 allocation", done.stdout)
        self.assertRegex(done.stdout, r"leak_here\n +test_it\.py:23 +test_leaks\n   native")  # and not pytest's own
        self.assertIn("STILL HELD 21.5 KiB in 1 allocation", done.stdout)
        self.assertIn("its own reason", done.stdout)

    def test_tests_that_leak_fail(self):
        self.check_outcomes(self.run_pytest("--culprit"))
        report = self.report(self.dumps()[0])
        self.assertIn("test: test_it.py::test_leaks", [mark["name"] for mark in report["marks"]])

    def test_pytest_starts_again_under_culprit(self):
        self.check_outcomes(self.run_pytest("--culprit", preload=False, CULPRIT_COMMAND=CULPRIT))
        self.assertEqual(self.dumps(), [])

    @unittest.skipUnless(python_with("pytest, xdist"), "no pytest-xdist")
    def test_workers_of_pytest_xdist(self):
        self.check_outcomes(self.run_pytest("--culprit", "-n", "2"))
        self.assertEqual(len(self.dumps()), 2)  # one a worker; the process that only hands out tests makes no CUDA call

    def test_nothing_is_checked_unless_asked(self):
        done = self.run_pytest()
        self.assertRegex(done.stdout, r"1 failed, 6 passed, 1 skipped")

    def test_allowance_of_all(self):
        done = self.run_pytest("--culprit", "--culprit-allow", "11K")
        self.assertRegex(done.stdout, r"2 failed, 5 passed, 1 skipped")
        self.assertEqual(self.run_pytest("--culprit", "--culprit-allow", "many").returncode, 4)

    def test_without_the_library_it_says_what_to_do(self):
        done = self.run_pytest("--culprit", preload=False, CULPRIT_PYTEST_AGAIN="x")
        self.assertEqual(done.returncode, 4)
        self.assertIn("culprit run -- python -m pytest --culprit", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
