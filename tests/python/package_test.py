#!/usr/bin/env python3
"""The Python package and the pytest plugin, on the simulated driver: package_test.py BUILD_FOLDER SOURCE_FOLDER"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
import reports  # noqa: E402

CULPRIT = os.path.join(BUILD, "bin", "culprit")
LIBRARY = os.path.join(BUILD, "lib", "libculprit.so")
PACKAGE = os.path.join(SOURCE, "interpose", "python_package")


def environment(**more):
    result = {key: value for key, value in os.environ.items() if not key.startswith("CULPRIT_")}
    result.pop("NVTX_INJECTION64_PATH", None)
    result.update({"PYTHONPATH": f"{PACKAGE}:{HERE}", "LD_LIBRARY_PATH": os.path.join(BUILD, "simcuda"),
                   "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "150", "NO_COLOR": "1", "DEBUGINFOD_URLS": "", **more})
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

    def test_what_is_live_at_marks(self):
        done = self.run_python("""
import culprit, fake_cuda
def load(): return fake_cuda.Memory(1001)
def make_cache(): return fake_cuda.Memory(5000)
def capture(): return fake_cuda.Memory(70)
culprit.mark("begin", snapshot=True)
weights, cache = load(), make_cache()
with culprit.mark("awake", snapshot=True):
    cache.free()
    graph = capture()
culprit.mark("asleep", snapshot=True)
culprit.mark("plain")
culprit.snapshot("then.dump")
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        then = os.path.join(self.folder, "then.dump")
        kept = self.report(then)["marks_with_bytes"]["kept"]
        self.assertEqual([(one["name"], one["live_bytes"]) for one in kept],
                         [("begin", 0), ("awake", 6001), ("asleep", 1071)])
        command = [CULPRIT, "diff", then, "--from", "awake", "--to", "asleep", "--format", "json"]
        diff = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        self.assertEqual([(one["change"], (one["new"] or one["old"])["bytes"]) for one in diff["changes"]],
                         [("new", 70), ("gone", 5000)])
        self.assertTrue(all(one["stack"] for one in diff["changes"]))

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
    import traceback
    assert traceback.format_exception_only(error)[0].startswith("culprit.LeakError: leaked"), repr(error)
else:
    raise SystemExit("no LeakError")
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        first = "leaked 2.41 KiB at fake_cuda.py:12 Memory.__init__\n\nculprit"
        self.assertTrue(done.stdout.startswith(first), done.stdout)
        self.assertIn("since mark", done.stdout)
        self.assertIn("2.41 KiB in 2 allocations", done.stdout)
        self.assertNotIn("next ", done.stdout)  # the snapshot is gone

    def test_a_check_is_not_known_where_nothing_can_be_recorded(self):
        done = self.run_python("""
import json
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

    def test_a_check_is_not_known_while_recording_is_off(self):
        done = self.run_python("""
import culprit, fake_cuda
kept = []

def check():
    with culprit.check():
        kept.append(fake_cuda.Memory(1234))

def grow():
    kept.append(fake_cuda.Memory(1234))

for function in check, culprit.no_growth(grow):
    try:
        function()
    except culprit.NotKnownError as error:
        assert "recording was off" in str(error), error
    else:
        raise SystemExit("no NotKnownError")
culprit.start()
try:
    check()
except culprit.LeakError as error:
    assert error.leaked_bytes == 1234 and not isinstance(error, culprit.NotKnownError), error
else:
    raise SystemExit("no LeakError")
with culprit.check():
    culprit.stop()  # spans that the program chooses
    culprit.start()
""", CULPRIT_START="signal")
        self.assertEqual(done.returncode, 0, done.stderr)

    def run_with_fakes(self, text, **more):
        fakes = os.path.join(SOURCE, "tests", "subjects", "python_fakes")
        done = self.run_python(f"import sys; sys.path.insert(0, {fakes!r})\n" + text,
                               FAKE_C10_CUDA=os.path.join(BUILD, "subjects", "libc10_cuda.so"), **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_tensor_that_is_kept_inside_a_cache(self):
        out = self.run_with_fakes("""
import culprit, torch
kept, old = [], torch.empty(3000)
def step(size):
    return torch.empty(size)
with culprit.check():
    step(700 << 10)                # idle memory of the cache is no leak
with culprit.check(allow="1M"):
    kept.append(step(500 << 10))
warm = culprit.check(warmups=2)
for _ in range(2):
    with warm:
        kept.append(step(500 << 10))
try:
    with warm:
        kept.append(step(400 << 10))
        old = None                 # 3072 bytes less
except culprit.LeakError as error:
    assert error.leaked_bytes == (400 << 10) - 3072, error.leaked_bytes
    print(error)
else:
    raise SystemExit("no LeakError")
class Cycle:
    pass
with culprit.check():              # only the collector can free this
    cycle = Cycle()
    cycle.itself, cycle.tensor = cycle, step(3000)
    del cycle
""", CULPRIT_COMMAND=CULPRIT)
        self.assertTrue(out.startswith("leaked 397 KiB held by `kept`, a list of 4\n\n"
                                       "LIVE IN CACHES 406,528 bytes more than before\n"), out)
        self.assertIn("   409,600 bytes in 1 tensor, held by `kept`, a list of 4\n", out)

    def test_tensors_and_their_keepers(self):
        fakes = os.path.join(SOURCE, "tests", "subjects", "python_fakes")
        text = ("import torch, culprit\nkept = torch.empty(500 << 10)\nlosses = [torch.empty(300 << 10)]\n"
                "before = culprit.tensors()\nprint(before[0].path, before[0].bytes, before[0].kind, len(before))\n"
                "losses += [torch.empty(300 << 10) for _ in range(3)]\nnow = culprit.tensors(since=before)\n"
                "print([(one.path, one.grown, one.bytes) for one in now], now.live_bytes)\nprint(now)\n"
                "print('<td>+900 KiB</td>' in now._repr_html_())\nassert before[1].id == now[0].id\n")
        more = {"PYTHONPATH": f"{fakes}:{PACKAGE}", "FAKE_C10_CUDA": os.path.join(BUILD, "subjects", "libc10_cuda.so")}
        done = self.run_python(text, **more)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout.splitlines(), [
            "`kept` 512000 variable 2", "[('`losses`, a list of 4', 921600, 1228800)] 1740800",
            "1.66 MiB of tensors and arrays live; what grew, by keeper:",
            "     +900 KiB  variable      `losses`, a list of 4", "True"])
        done = self.run_python("import culprit\nfound = culprit.tensors()\nprint(len(found), found)\n", preload=False)
        self.assertRegex(done.stdout, r"^0 culprit is not loaded: nothing is known\. ")
        done = self.run_python("import culprit\nprint(culprit.tensors())\n")
        self.assertRegex(done.stdout, r"^nothing is known: no CUDA call was made yet")

    def test_an_array_in_the_pool_of_another_device(self):
        out = self.run_with_fakes("""
import ctypes, culprit, cupy
context = ctypes.c_void_p()
two = ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxRetain(ctypes.byref(context), 1) == 0
def keep(device):
    with cupy.cuda.Device(device):
        return cupy.empty(5000)
for device in range(1 + two):
    try:
        with culprit.check():
            kept = keep(device)
    except culprit.LeakError as error:
        print(str(error).splitlines()[2])
print(culprit._caches._has_context(7))
""")
        line = "LIVE IN CACHES 5,000 bytes more than before\n"
        self.assertIn(out, (line + line + "False\n", line + "False\n"))

    def test_a_test_that_clears_the_environment(self):
        out = self.run_with_fakes("""
import culprit, os, unittest.mock
from culprit import _library
with unittest.mock.patch.dict(os.environ, clear=True):
    print(_library.command(), _library.library_beside("/x/y"))
    os.environ["CULPRIT_COMMAND"] = "/other"
    print(_library.command())
""", CULPRIT_COMMAND="/the/command", CULPRIT_LIBRARY="/the/library.so")
        self.assertEqual(out, "/the/command /the/library.so\n/other\n")

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
        self.assertIn("culprit is not loaded: nothing is checked. ", done.stderr)

    def test_without_the_library_a_check_says_what_to_do(self):
        self.write("train.py", "import culprit\nwith culprit.check():\n    pass\n")
        venv = os.path.join(self.folder, "venv", "bin")
        os.makedirs(venv)
        for name, target in ("python", sys.executable), ("culprit", CULPRIT):
            os.symlink(os.path.realpath(target), os.path.join(venv, name))
        self.write("venv/pyvenv.cfg", f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
        path = {"PATH": "/usr/bin:/bin"}
        in_path = {"PATH": os.path.dirname(CULPRIT) + ":/usr/bin:/bin"}
        python, own = sys.executable, os.path.join(venv, "python")
        for interpreter, arguments, more, advice in (
                (python, ["train.py", "--lr", "a b"], in_path, f"culprit run -- {python} train.py --lr 'a b'"),
                (python, ["train.py"], {**path, "CULPRIT_COMMAND": CULPRIT}, f"{CULPRIT} run -- {python} train.py"),
                (own, ["train.py"], {**path, "CULPRIT_COMMAND": CULPRIT}, f"{venv}/culprit run -- {own} train.py"),
                (python, ["train.py", "x" * 200], in_path, "culprit run -- python ..."),
                (python, ["train.py"], path, "pip install culprit_gpu-*.whl")):
            with self.subTest(advice):
                done = self.run_python(None, *arguments, preload=False, python=interpreter, **more)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("train.py:2: UserWarning: culprit is not loaded: nothing is checked. ", done.stderr)
                self.assertIn(f" Run: {advice}\n", done.stderr)

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

    def test_gates_on_what_only_a_look_inside_python_tells(self):
        """Where there was none they are not green."""
        fakes = os.path.join(SOURCE, "tests", "subjects", "python_fakes")
        self.write("keep.py", f"import os, sys\nsys.path.insert(0, {fakes!r})\nimport torch\n"
                              "kept = torch.empty(3000000)\nif 'exit' in sys.argv: os._exit(0)\n")
        self.write("free.py", "import fake_cuda\nfake_cuda.Memory(1000).free()\n")
        for what, words, code in (
                ("live-cached", ["keep.py"], 1), ("live-cached", ["keep.py", "exit"], 4),
                ("live-cached", ["free.py"], 0),
                ("live-cached", ["keep.py", "off"], 4), ("live-cached", ["free.py", "off"], 0),
                ("freed-at-end", ["free.py"], 0), ("freed-at-end", ["free.py", "off"], 4),
                ("leaks", ["keep.py", "off"], 0)):
            with self.subTest(what, words=words):
                more = {"CULPRIT_PYTHON": "0"} if "off" in words else {}
                run = environment(FAKE_C10_CUDA=os.path.join(BUILD, "subjects", "libc10_cuda.so"), **more)
                dump = os.path.join(self.folder, "a.dump")
                done = subprocess.run([CULPRIT, "run", "--fail-on", what, "--out", dump, "--", sys.executable, *words],
                                      env=run, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                merged = os.path.join(self.folder, "a.json")
                again = [[CULPRIT, "report", dump, "--fail-on", what], [CULPRIT, "merge", dump, "-o", merged],
                         [CULPRIT, "report", merged, "--fail-on", what]]
                codes = [subprocess.run(one, env=environment(), capture_output=True, timeout=60, check=False).returncode
                         for one in again]
                self.assertEqual(codes, [code, 0, code])
                for name in os.listdir(self.folder):
                    if not name.endswith(".py"):
                        os.unlink(os.path.join(self.folder, name))

    def test_memory_that_was_freed_only_while_python_ended(self):
        self.write("end.py", """
import atexit, threading, fake_cuda
early = fake_cuda.Memory(1001)
atexit.register(early.free)
kept = fake_cuda.Memory(1002)
class Cycle:
    pass
cycle = Cycle()
cycle.itself, cycle.memory = cycle, fake_cuda.Memory(1004)
del cycle
fake_cuda.Memory(1008).free()
lost = fake_cuda.Memory(1016)
lost._pointer = None
def work():
    memory = fake_cuda.Memory(1032)
    threading.main_thread().join()
    memory.free()
def main():
    local = fake_cuda.Memory(1064)
main()
late = fake_cuda.Memory(1128)
atexit.register(late.free)
if "thread" in __import__("sys").argv:
    threading.Thread(target=work).start()
""")
        found = {}
        for arguments in (), ("thread",):
            done = self.run_python(None, "end.py", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            dump = next(dump for dump in self.dumps() if dump not in found)
            found[dump] = report = self.report(dump)
            self.assertEqual([group["bytes"] for group in report["leaks"]], [1016])
            self.assertEqual(len(report["freed_at_end"]), 1)
            sizes = {one["bytes"] for one in report["freed_at_end"][0]["stacks"]}
            # A program whose threads go on has not ended. Then the handlers of atexit that were added after the first
            # call of CUDA run before the library's own, and their frees are not seen as late.
            self.assertEqual(sizes - {1001, 1128}, {1002, 1004})
            if not arguments:
                self.assertLessEqual({1001, 1128}, sizes)
        command = [CULPRIT, "report", *found]
        for options, code in (["--fail-on", "freed-at-end"], 1), (["--fail-on", "errors"], 0), (["--merge"], 0):
            done = subprocess.run([*command, "--all", *options], env=environment(), capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count("FREED ONLY WHILE PYTHON ENDED"), 2, done.stdout)
        merged = os.path.join(self.folder, "all.merged")
        subprocess.run([CULPRIT, "merge", *found, "-o", merged], env=environment(), timeout=60, check=True,
                       capture_output=True)
        self.assertEqual([one["process"] for one in self.report(merged)["freed_at_end"]], [0, 1])
        done = self.run_python("import fake_cuda\nfake_cuda.Memory(1).free()")
        dump = next(dump for dump in self.dumps() if dump not in found)
        self.assertNotIn("freed_at_end", self.report(dump))

    def test_a_suggested_suppression_hides_the_leak_that_it_was_made_for(self):
        """All of these leak through ctypes, so their innermost frames are those of libffi and of one Python line."""
        done = self.run_python("""
import fake_cuda, os
kept = []
def make(size):
    kept.append(fake_cuda.Memory(size))
def one():
    make(1001)
    make(1002)
def two():
    make(1004)
one(); two()
for size in 1008, 1016:
    make(size)
kept.append(fake_cuda.Memory(1032))
os._exit(0)
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        dump = self.dumps()[0]
        command = [CULPRIT, "report", dump, "--suggest-suppressions"]
        lines = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60,
                               check=True).stdout.splitlines()
        self.assertEqual([line[0] for line in lines], ["#", "i"] * 5)
        self.assertIn(", fake_cuda.py:12 Memory.__init__ < ", lines[0])
        known = os.path.join(self.folder, "known.supp")
        sizes = []
        for line in lines[1::2]:
            self.write(known, line + "\n")
            left = self.report(dump, "--suppressions", known)["leaks"]
            sizes.append(6063 - sum(group["bytes"] for group in left))
            self.assertEqual(len(left), 4, line)
        self.assertEqual(sorted(sizes), [1001, 1002, 1004, 1032, 2024])

    def test_the_first_line_of_a_leak(self):
        done = self.run_python("""
from culprit._headline import headline, places_of, size_text
sizes = 0, 1023, 1024, 11001, 1 << 20, 1023 << 10, (1 << 20) - 1, 10230, 102348, 1 << 50, 5 << 70
for size in sizes:
    print(size_text(size))
print(headline(5, []))
print(headline(5, [(2, " at a.py:1 f"), (3, " at b.py:2 g")]))
print(headline(6, [(2, " at a.py:1 f"), (3, " at b.py:2 g"), (1, "")]))
def frame(function, file="", line=0, language="native"):
    return {"function": function, "file": file, "line": line, "language": language}
native, unknown = frame("c10::alloc", "c10.cpp", 7), frame("malloc")
package = frame("forward", "/usr/lib/python3/dist-packages/torch/nn.py", 3, "python")
own = frame("step", "/home/me/train.py", 5, "python")
for stack in [unknown, native, package, own], [unknown, package], [unknown, native], [unknown], [frame("")], []:
    print(places_of({"leaks": [{"cause": "held", "bytes": 8, "stack": stack},
                               {"cause": "cached", "bytes": 9, "stack": stack}]}, lambda group: group["bytes"]))
""", preload=False)
        self.assertEqual(done.stdout.splitlines(), [
            "0 B", "1023 B", "1.00 KiB", "10.7 KiB", "1.00 MiB", "1023 KiB", "1.00 MiB", "9.99 KiB", "99.9 KiB",
            "1.00 PiB", "5120 EiB", "leaked 5 B", "leaked 5 B at b.py:2 g and 1 other place",
            "leaked 6 B at b.py:2 g and 2 other places", "[(8, ' at train.py:5 step')]", "[(8, ' at nn.py:3 forward')]",
            "[(8, ' at c10.cpp:7 c10::alloc')]", "[(8, ' in malloc')]", "[(8, '')]", "[(8, '')]"], done.stderr)


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


CACHE_TESTS = """
import pytest, sys
sys.path.insert(0, FAKES)
import torch

kept, cache = [], {}

@pytest.fixture(scope="module")
def model():
    weights = torch.empty(900 << 10)
    yield weights

def keep(size):
    kept.append(torch.empty(size))

def test_idle_memory_is_none(model):
    torch.empty(300 << 10)

def test_keeps(model):
    keep(11 << 10)

def test_fills_a_cache():
    cache.setdefault("table", torch.empty(22 << 10))

@pytest.mark.culprit(warmups=1)
def test_fills_another_one():
    cache.setdefault("other table", torch.empty(33 << 10))

@pytest.mark.culprit(allow="1M")
def test_may_keep_a_little():
    keep(44 << 10)

def test_keeps_while_the_model_goes(model):
    keep(55 << 10)
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
        for name, size in ("test_leaks", "10.7 KiB"), ("test_leaks_beside_a_fixture", "21.5 KiB"):
            self.assertIn(f"FAILED test_it.py::{name} - leaked {size} at fake_cuda.py:12 Memory.__init__\n",
                          done.stdout)
        self.assertEqual(done.stderr, "")

    def test_tests_that_leak_fail(self):
        self.check_outcomes(self.run_pytest("--culprit"))
        report = self.report(self.dumps()[0])
        self.assertIn("test: test_it.py::test_leaks", [mark["name"] for mark in report["marks"]])

    def test_pytest_starts_again_under_culprit(self):
        self.check_outcomes(self.run_pytest("--culprit", preload=False, CULPRIT_COMMAND=CULPRIT, TMPDIR=self.folder))
        self.assertEqual(sorted(os.listdir(self.folder)), ["test_it.py"])

    @unittest.skipUnless(python_with("pytest, xdist"), "no pytest-xdist")
    def test_workers_of_pytest_xdist(self):
        self.check_outcomes(self.run_pytest("--culprit", "-n", "2"))
        self.assertEqual(len(self.dumps()), 2)  # one a worker; the process that only hands out tests makes no CUDA call

    def test_other_forms_of_the_result(self):
        done = self.run_pytest("--culprit", "--tb=line", "--junitxml=result.xml")
        self.assertIn("\ntest_it.py:22: leaked 10.7 KiB at fake_cuda.py:12 Memory.__init__\n", done.stdout)
        with open(os.path.join(self.folder, "result.xml"), encoding="utf-8") as file:
            self.assertIn('<failure message="leaked 10.7 KiB at fake_cuda.py:12 Memory.__init__">', file.read())

    def test_warnings_are_errors(self):
        """The plugin as an installed package brings it, and by -p; a program may have imported the package before."""
        installed = os.path.join(self.folder, "site")
        information = os.path.join(installed, "culprit_gpu-0.dist-info")
        os.makedirs(information)
        os.symlink(os.path.join(PACKAGE, "culprit"), os.path.join(installed, "culprit"))
        files = [f"culprit/{name},," for name in os.listdir(os.path.join(PACKAGE, "culprit")) if name.endswith(".py")]
        for name, lines in (("METADATA", ["Metadata-Version: 2.1", "Name: culprit-gpu", "Version: 0"]),
                            ("entry_points.txt", ["[pytest11]", "culprit = culprit.pytest_plugin"]),
                            ("RECORD", [*files, "culprit_gpu-0.dist-info/RECORD,,"])):
            self.write(os.path.join(information, name), "\n".join(lines) + "\n")
        self.write("test_it.py", TESTS)
        self.write("pytest.ini", "[pytest]\nfilterwarnings = error\n")
        before = "import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))"
        for path, plugin in (f"{installed}:{HERE}", "culprit"), (f"{PACKAGE}:{HERE}", "culprit.pytest_plugin"):
            for text in None, before, "import culprit\n" + before, "import culprit.pytest_plugin\n" + before:
                with self.subTest(plugin=plugin, text=text):
                    self.check_outcomes(self.run_python(
                        text, *([] if text else ["-m", "pytest"]), "-p", plugin, "-p", "no:cacheprovider", "-rA",
                        "--culprit", "test_it.py", options=["-W", "error", "-X", "dev"], python=python_with("pytest"),
                        PYTHONPATH=path))
        with self.subTest("found by its entry point"):
            self.check_outcomes(self.run_python(
                None, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--culprit", "test_it.py",
                options=["-W", "error"], python=python_with("pytest"), PYTHONPATH=f"{installed}:{HERE}"))

    def test_no_test_is_green_while_recording_is_off(self):
        done = self.run_pytest("--culprit", "-k", "test_leaks or uses or looked", CULPRIT_START="signal")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, "3 failed, 1 passed")  # the one with check=False
        self.assertIn("recording was off", done.stdout)
        # A test that leaves it off.
        self.write("test_stop.py", "import culprit, fake_cuda\nkept = []\ndef test_stops(): culprit.stop()\n"
                                   "def test_leaks(): kept.append(fake_cuda.Memory(1000))\n")
        done = self.run_python(None, "-m", "pytest", "-p", "culprit.pytest_plugin", "-p", "no:cacheprovider",
                               "--culprit", "test_stop.py", python=python_with("pytest"))
        self.assertRegex(done.stdout, "2 failed")

    def test_a_marker_that_is_misspelt_is_refused(self):
        for marker, words in (('repaet=5', "there is no repaet; there are: allow, check, warmups, repeat"),
                              ('"4MB"', "'4MB' has no name; there are: allow, "),
                              ('check="no"', "check='no': True or False is needed"),
                              ('repeat=0', "repeat=0: a number from 1 on is needed"),
                              ('warmups=-1', "warmups=-1: a number from 0 on is needed"),
                              ('allow="lots"', "allow='lots': a size is needed")):
            with self.subTest(marker):
                self.write("test_marked.py", f"import pytest\ndef test_first(): pass\n"
                                             f"@pytest.mark.culprit({marker})\ndef test_it(): pass\n")
                done = self.run_python(None, "-m", "pytest", "-p", "culprit.pytest_plugin", "-p", "no:cacheprovider",
                                       "--culprit", "test_marked.py", python=python_with("pytest"))
                self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
                self.assertIn(f"test_marked.py::test_it: pytest.mark.culprit: {words}", done.stdout + done.stderr)

    def test_a_fixture_with_a_wider_scope_may_fail_at_its_end(self):
        self.write("test_end.py", "import pytest\n@pytest.fixture(scope='module')\ndef table():\n    yield 1\n"
                                  "    raise OSError('at its end')\ndef test_one(table): pass\n"
                                  "def test_two(table): pass\n")
        done = self.run_python(None, "-m", "pytest", "-p", "culprit.pytest_plugin", "-p", "no:cacheprovider", "-rA",
                               "--culprit", "test_end.py", python=python_with("pytest"))
        self.assertRegex(done.stdout, r"2 passed, 1 error")
        self.assertIn("ERROR at teardown of test_two", done.stdout)

    def test_tensors_that_are_kept(self):
        fakes = os.path.join(SOURCE, "tests", "subjects", "python_fakes")
        self.write("test_caches.py", CACHE_TESTS.replace("FAKES", repr(fakes)))
        arguments = ("-m", "pytest", "-p", "culprit.pytest_plugin", "-p", "no:cacheprovider", "-rA", "--culprit",
                     "test_caches.py")
        more = {"python": python_with("pytest"), "FAKE_C10_CUDA": os.path.join(BUILD, "subjects", "libc10_cuda.so")}
        done = self.run_python(None, *arguments, **more)
        self.assertRegex(done.stdout, r"3 failed, 3 passed")
        for name in "test_keeps", "test_fills_a_cache", "test_keeps_while_the_model_goes":
            self.assertRegex(done.stdout, rf"FAILED test_caches.py::{name}\b")
        self.assertIn("11,264 bytes in 1 tensor, held by `test_caches.kept`, a list of 1\n", done.stdout)
        self.assertIn("56,320 bytes in 1 tensor", done.stdout)
        done = self.run_python(None, *arguments, "--culprit-warmups", "1", **more)
        self.assertRegex(done.stdout, r"2 failed, 4 passed")

    def test_nothing_is_checked_unless_asked(self):
        done = self.run_pytest()
        self.assertRegex(done.stdout, r"1 failed, 6 passed, 1 skipped")

    def test_allowance_of_all(self):
        done = self.run_pytest("--culprit", "--culprit-allow", "11K")
        self.assertRegex(done.stdout, r"2 failed, 5 passed, 1 skipped")
        self.assertEqual(self.run_pytest("--culprit", "--culprit-allow", "many").returncode, 4)

    def test_without_the_library_it_says_what_to_do(self):
        elsewhere = os.path.join(self.folder, "bin", "culprit")
        os.mkdir(os.path.dirname(elsewhere))
        shutil.copy("/bin/true", elsewhere)
        python, path = python_with("pytest"), {"PATH": "/usr/bin:/bin"}
        for environ, message in (
                ({}, "--culprit: libculprit.so is not loaded. The command culprit is not installed. "
                     "Run: pip install culprit_gpu-*.whl"),
                ({"CULPRIT_COMMAND": elsewhere}, f"--culprit: libculprit.so is not loaded. {elsewhere} has no "
                 "libculprit.so in its tree. Run: pip install --force-reinstall culprit_gpu-*.whl"),
                ({"CULPRIT_COMMAND": CULPRIT, "CULPRIT_LIBRARY": "/none.so"}, "--culprit: libculprit.so is not loaded. "
                 "CULPRIT_LIBRARY names no file (/none.so). Run: unset CULPRIT_LIBRARY"),
                ({"CULPRIT_PYTEST_AGAIN": "1"}, f"--culprit: {python} does not load what LD_PRELOAD names (None): it "
                 "is static, of another libc, or privileged. Run with another Python: culprit run -- python3 -m pytest "
                 "--culprit")):
            with self.subTest(environ):
                done = self.run_pytest("--culprit", preload=False, **{**path, **environ})
                self.assertEqual(done.returncode, 4)
                self.assertIn(f"ERROR: {message}\n", done.stderr)
        start = "import pytest, sys; sys.exit(pytest.main(['--culprit', '-p', 'culprit.pytest_plugin']))"
        done = self.run_python(start, preload=False, python=python, CULPRIT_COMMAND=CULPRIT, **path)
        self.assertEqual(done.returncode, 4)
        self.assertIn(f"ERROR: --culprit: libculprit.so is not loaded. Run: {CULPRIT} run -- {python} -c", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
