#!/usr/bin/env python3
"""The pytest plugin beside other plugins, in each pytest that is here: neighbours_test.py BUILD_FOLDER SOURCE_FOLDER

A test that leaves nothing behind has the result that it has without the plugin; one that leaks has the result of a test
that fails. scripts/python-tools.sh gets the oldest and the newest pytest, with plugins that run tests in other ways."""
import os
import re
import subprocess
import sys
import unittest

from package_test import BUILD, CULPRIT, HERE, LIBRARY, PACKAGE, InFolder, python_with

TOOLS = os.path.join(BUILD, "deps", "python-tools")

CONFTEST = """
import pytest

@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    setattr(item, "rep_" + report.when, report)
    if report.when == "call" and report.failed:  # as for a screenshot: the fixture still works
        assert all(value["open"] for value in item.funcargs.values() if isinstance(value, dict))

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield
    for name in item.funcargs:
        item.funcargs[name]

@pytest.fixture
def screen(request):
    value = {"open": True}
    yield value
    value["open"] = False
    assert request.node.rep_call.outcome in ("passed", "failed", "skipped")
"""

TESTS = """
import asyncio, importlib.util, unittest
import fake_cuda, pytest, culprit

kept = []
runs = {}

def leak(size=1000):
    kept.append(fake_cuda.Memory(size))

def run_of(name):
    runs[name] = runs.get(name, 0) + 1
    return runs[name]

@pytest.fixture
def plain():
    return fake_cuda.Memory(5000)

@pytest.fixture(scope="module")
def table():
    memory = fake_cuda.Memory(7000)
    yield memory
    memory.free()

def test_pass(screen): pass
def test_held_by_a_fixture(plain, screen): pass
def test_leak(screen, table): leak()
def test_fail(screen): assert False
def test_skip(screen): pytest.skip("x")
@pytest.mark.xfail
def test_xfail(screen): assert False
@pytest.mark.xfail
def test_xpass(screen): pass
@pytest.mark.xfail(strict=True)
def test_xpass_strict(screen): pass
@pytest.mark.xfail
def test_xfail_leak(screen): leak()
@pytest.mark.xfail(strict=True)
def test_xfail_strict_leak(screen): leak()
@pytest.mark.xfail(raises=culprit.LeakError)
def test_xfail_raises_leak(screen): leak()
@pytest.mark.xfail(raises=KeyError)
def test_xfail_raises_other_leak(screen): leak()

@pytest.fixture
def bad_end():
    yield 1
    raise OSError("at its end")
def test_bad_end(bad_end): pass
@pytest.fixture
def bad_start():
    raise OSError("at its start")
def test_bad_start(bad_start): pass

class TestUnit(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.big = fake_cuda.Memory(999)
    @classmethod
    def tearDownClass(cls): cls.big.free()
    def setUp(self): self.memory = fake_cuda.Memory(300)
    def test_holds(self): self.other = [self.memory]
    def test_leak(self): leak()
    @unittest.expectedFailure
    def test_unexpected(self): pass
    @unittest.expectedFailure
    def test_xfail_leak(self): leak()
    @unittest.skip("x")
    def test_skip(self): pass

class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def test_pass(self): await asyncio.sleep(0)
    async def test_leak(self):
        await asyncio.sleep(0)
        leak()

@culprit.no_growth(repeat=3, warmup=1)
def test_no_growth(screen): runs.setdefault("cache", fake_cuda.Memory(10))

if int(pytest.__version__.split(".")[0]) >= 9:
    def test_subtests(subtests):
        for i in range(3):
            with subtests.test(i=i):
                assert i == 0
    def test_subtests_leak(subtests):
        with subtests.test(i=1):
            leak()

if importlib.util.find_spec("pytest_asyncio"):
    @pytest.mark.asyncio
    async def test_async(screen, plain): await asyncio.sleep(0)
    @pytest.mark.asyncio
    async def test_async_leak(screen):
        await asyncio.sleep(0)
        leak()

if importlib.util.find_spec("pytest_rerunfailures"):
    @pytest.mark.flaky(reruns=2)
    def test_flaky(table): assert run_of("flaky") > 1
    @pytest.mark.flaky(reruns=2)
    def test_flaky_leak(table):
        if run_of("flaky leak") == 1: leak()
    @pytest.mark.flaky(reruns=1)
    def test_leaks_again(table): leak()
    @pytest.mark.flaky(reruns=2)
    @pytest.mark.xfail(strict=True)
    def test_flaky_xfail_leak(table): leak()
"""
RESULTS = {
    "test_pass": "PASSED", "test_held_by_a_fixture": "PASSED", "test_leak": "FAILED", "test_fail": "FAILED",
    "test_skip": "SKIPPED", "test_xfail": "XFAIL", "test_xpass": "XPASS", "test_xpass_strict": "FAILED",
    "test_xfail_leak": "XFAIL", "test_xfail_strict_leak": "XFAIL", "test_xfail_raises_leak": "XFAIL",
    "test_xfail_raises_other_leak": "FAILED", "test_bad_end": "PASSED ERROR", "test_bad_start": "ERROR",
    "TestUnit::test_holds": "PASSED", "TestUnit::test_leak": "FAILED", "TestUnit::test_unexpected": "FAILED",
    "TestUnit::test_xfail_leak": "XFAIL", "TestUnit::test_skip": "SKIPPED", "TestAsync::test_pass": "PASSED",
    "TestAsync::test_leak": "FAILED", "test_no_growth": "PASSED",
}
RESULTS_SUBTESTS = {"test_subtests": "SUBPASSED SUBFAILED SUBFAILED FAILED", "test_subtests_leak": "SUBPASSED FAILED"}
RESULTS_ASYNC = {"test_async": "PASSED", "test_async_leak": "FAILED"}
RESULTS_AGAIN = {"test_flaky": "RERUN PASSED", "test_flaky_leak": "RERUN PASSED", "test_leaks_again": "RERUN FAILED",
                 "test_flaky_xfail_leak": "XFAIL"}

REPEATED = """
import fake_cuda, pytest
kept, cache, runs = [], {}, []

@pytest.fixture(scope="module")
def table():
    yield fake_cuda.Memory(9000)

@pytest.fixture
def plain():
    return fake_cuda.Memory(5000)

def test_cache(table, plain): cache.setdefault("a", fake_cuda.Memory(100))
def test_grows(table): kept.append(fake_cuda.Memory(1000))
def test_every_second_time():
    runs.append(1)
    if len(runs) % 2 == 0: kept.append(fake_cuda.Memory(10))
def test_ring():
    cache["ring"] = (cache.get("ring", []) + [fake_cuda.Memory(10)])[-2:]
@pytest.mark.xfail(strict=True)
def test_grows_as_expected(): kept.append(fake_cuda.Memory(1000))
def test_fails_later():
    cache["times"] = cache.get("times", 0) + 1
    assert cache["times"] < 3
@pytest.mark.culprit(repeat=1)
def test_once(): cache["b"] = fake_cuda.Memory(100)
@pytest.mark.culprit(check=False)
def test_is_not_looked_at():
    cache["calls"] = cache.get("calls", 0) + 1
    assert cache["calls"] == 1
def test_skip(): pytest.skip("x")
"""
RESULTS_REPEATED = {
    "test_cache": "PASSED", "test_grows": "FAILED", "test_every_second_time": "FAILED", "test_ring": "PASSED",
    "test_grows_as_expected": "XFAIL", "test_fails_later": "FAILED", "test_once": "FAILED",
    "test_is_not_looked_at": "PASSED", "test_skip": "SKIPPED",
}


def pytests():
    """(name, interpreter, folder of its modules) of each pytest that is here."""
    found = [("installed", python_with("pytest"), "")]
    if os.path.isdir(TOOLS):
        found += [(name, sys.executable, os.path.join(TOOLS, name)) for name in sorted(os.listdir(TOOLS))
                  if name.startswith("pytest-")]
    return [one for one in found if one[1] is not None]


def results_of(output):
    """{test: the words of its lines}"""
    found = {}
    # "test_it.py::test_a PASSED [ 5%]", "test_it.py::test_a SUBFAILED(i=1) [ 6%]"; from a worker of pytest-xdist
    # "[gw0] [ 5%] PASSED test_it.py::test_a"
    for line in output.splitlines():
        match = (re.match(r"(?P<test>test_it\.py::\S+) (?P<word>[A-Z]+)\b", line)
                 or re.match(r"\[gw\d+\] (?:\[ *\d+%\] )?(?P<word>[A-Z]+) (?P<test>test_it\.py::\S+)", line))
        if match:
            found.setdefault(match["test"].partition("::")[2], []).append(match["word"])
    return {test: " ".join(words) for test, words in found.items()}


class Neighbours(InFolder):
    def run_pytest(self, which, *options, **more):
        _, python, folder = which
        path = ":".join([folder, PACKAGE, HERE] if folder else [PACKAGE, HERE])
        return self.run_python(None, "-m", "pytest", "-p", "culprit.pytest_plugin", "-p", "no:cacheprovider", "-v",
                               *options, "test_it.py", python=python, PYTHONPATH=path, **more)

    def expected(self, which):
        expected = dict(RESULTS)
        if which[0] == "pytest-9.2":
            expected.update(RESULTS_SUBTESTS)
        for module, more in ("pytest_asyncio", RESULTS_ASYNC), ("pytest_rerunfailures", RESULTS_AGAIN):
            if self.has(which, module):
                expected.update(more)
        return expected

    def has(self, which, module):
        return self.run_python(f"import {module}", preload=False, python=which[1],
                               PYTHONPATH=which[2]).returncode == 0

    def test_each_test_has_its_own_result(self):
        self.write("conftest.py", CONFTEST)
        self.write("test_it.py", TESTS)
        for which in pytests():
            expected = self.expected(which)
            several = [("-n", "2")] if which is pytests()[-1] and self.has(which, "xdist") else []
            for options in [(), *several]:
                with self.subTest(which[0], options=options):
                    done = self.run_pytest(which, "--culprit", *options)
                    self.assertEqual(results_of(done.stdout), expected, done.stdout + done.stderr)
                    self.assertNotIn("INTERNALERROR", done.stdout + done.stderr)
                    self.assertNotIn("Exception ignored", done.stdout + done.stderr)
                    # Frames of pytest and of unittest are not those of the program.
                    frames = re.findall(r"(?m)^ +(?:case|async_case|python|runner|unittest|fixtures)\.py:\d+ .*",
                                        done.stdout)
                    self.assertEqual(frames, [])

    def test_repetitions(self):
        self.write("test_it.py", REPEATED)
        for which in pytests():
            with self.subTest(which[0]):
                done = self.run_pytest(which, "--culprit", "--culprit-repeat", "5")
                self.assertEqual(results_of(done.stdout), RESULTS_REPEATED, done.stdout + done.stderr)
                self.assertIn("grew by 4.88 KiB in 5 repetitions at fake_cuda.py:12", done.stdout)
                self.assertIn("in use after each repetition: ", done.stdout)
                self.assertNotIn("came once", done.stdout)
        self.assertEqual(self.run_pytest(which, "--culprit", "--culprit-repeat", "0").returncode, 4)

    def test_a_test_that_passes_does_not_collect_garbage(self):
        self.write("test_it.py", "import fake_cuda\ndef test_a(): fake_cuda.Memory(10).free()\n"
                                 "def test_b(): pass\ndef test_c(): pass\n")
        self.write("conftest.py", "import gc, pytest\ncollect, calls = gc.collect, []\n"
                                  "gc.collect = lambda *a: calls.append(1) or collect(*a)\n"
                                  "@pytest.fixture(scope='session', autouse=True)\ndef count():\n"
                                  "    before = len(calls)\n    yield\n    assert len(calls) == before\n")
        for which in pytests():
            with self.subTest(which[0]):
                done = self.run_pytest(which, "--culprit")
                self.assertEqual(results_of(done.stdout), dict.fromkeys(("test_a", "test_b", "test_c"), "PASSED"),
                                 done.stdout + done.stderr)

    def test_a_fixture_with_a_wider_scope_ends_after_the_check(self):
        self.write("test_it.py", "import fake_cuda, pytest\n@pytest.fixture(scope='module')\ndef pool():\n"
                                 "    held = []\n    yield held\n    held.clear()\n"
                                 "def test_leak(pool): pool.append(fake_cuda.Memory(10))\n")
        for which in pytests():
            with self.subTest(which[0]):
                done = self.run_pytest(which, "--culprit")
                self.assertEqual(results_of(done.stdout), {"test_leak": "FAILED"}, done.stdout + done.stderr)

    def test_a_library_in_a_folder_with_spaces(self):
        folder = os.path.join(self.folder, "a b:c")
        for name, target in ("bin/culprit", CULPRIT), ("lib/libculprit.so", LIBRARY):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            os.symlink(target, os.path.join(folder, name))
        self.write("test_it.py", "import fake_cuda\nkept = []\ndef test_leak(): kept.append(fake_cuda.Memory(10))\n"
                                 "def test_pass(): pass\n")
        temporary = os.path.join(self.folder, "tmp")
        os.mkdir(temporary)
        more = {"CULPRIT_COMMAND": CULPRIT, "CULPRIT_LIBRARY": os.path.join(folder, "lib", "libculprit.so"),
                "TMPDIR": temporary}
        for which in pytests():
            with self.subTest(which[0]):
                done = self.run_pytest(which, "--culprit", preload=False, **more)
                self.assertEqual(results_of(done.stdout), {"test_leak": "FAILED", "test_pass": "PASSED"},
                                 done.stdout + done.stderr)
        command = [CULPRIT, "run", "--format", "json", "--", sys.executable, "-c",
                   "import fake_cuda; kept = fake_cuda.Memory(77)"]
        from package_test import environment
        done = subprocess.run(command, env=environment(**more), cwd=self.folder, capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(temporary), [])


class Errors(InFolder):
    def test_they_can_be_pickled_and_copied(self):
        done = self.run_python("""
import copy, pickle, culprit
for kind in culprit.LeakError, culprit.NotKnownError:
    error = kind("leaked 5 B\\n\\nmore", 5, 1, {"leaks": []})
    error.own = 7
    for other in pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error):
        assert type(other) is kind and str(other) == str(error) and other.args == error.args, other
        assert (other.leaked_bytes, other.leaked_allocations, other.report, other.own) == (5, 1, {"leaks": []}, 7)
""", preload=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_out_of_a_process_of_a_pool(self):
        self.write("work.py", """
import concurrent.futures, multiprocessing, culprit, fake_cuda
kept = []
def leaks():
    with culprit.check():
        kept.append(fake_cuda.Memory(123))
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            pool.submit(leaks).result(timeout=50)
        except culprit.LeakError as error:
            print(error.leaked_bytes, str(error).splitlines()[0])
""")
        done = self.run_python(None, "work.py")
        self.assertEqual(done.stdout, "123 leaked 123 B at fake_cuda.py:12 Memory.__init__\n", done.stderr)


class Types(InFolder):
    @unittest.skipUnless(os.path.isdir(os.path.join(TOOLS, "mypy")), "no mypy")
    def test_a_typed_program(self):
        """As an installed package, whose annotations count only with py.typed."""
        self.write("program.py", """
import pathlib
import culprit

@culprit.no_growth(repeat=5, warmup=2, allow="4MB")
def step(size: int) -> float:
    return size * 0.5

@culprit.no_growth
async def later() -> None: ...

def main() -> None:
    with culprit.check(allow=5, warmups=1), culprit.mark("epoch"):
        step(3)
    path = culprit.snapshot(pathlib.Path("a.dump"), referrers=True)
    print(path.name if path is not None else "", culprit.live_bytes() + 1, culprit.loaded())
    try:
        culprit.start()
    except culprit.NotKnownError as error:
        print(error.leaked_bytes + 1, error.report)

reveal_type(step)
""")
        self.write("wrong.py", "import culprit\nculprit.check(allow=[1])\n")
        site = os.path.join(self.folder, "site-packages")
        os.mkdir(site)
        os.symlink(os.path.join(PACKAGE, "culprit"), os.path.join(site, "culprit"))
        mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.path.join(self.folder, "cache")]
        for program, code in ("program.py", 0), ("wrong.py", 1):
            done = subprocess.run([*mypy, program], cwd=self.folder, capture_output=True, text=True, timeout=100,
                                  check=False, env={**os.environ, "PYTHONPATH": os.path.join(TOOLS, "mypy"),
                                                    "MYPYPATH": site})
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            if code == 0:
                self.assertIn('Revealed type is "def (size: builtins.int) -> builtins.float"'.replace("builtins.", ""),
                              done.stdout.replace("builtins.", ""))
        # The package itself, too.
        done = subprocess.run([*mypy, "-p", "culprit"], cwd=self.folder, capture_output=True, text=True, timeout=100,
                              check=False, env={**os.environ, "MYPYPATH": site,
                                                "PYTHONPATH": os.path.join(TOOLS, "mypy") + ":" +
                                                os.path.join(TOOLS, "pytest-9.2")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
