#!/usr/bin/env python3
"""The view that libculprit.so brings into interpreters (interpose/inside_python), on the simulated driver with the
stand-ins for PyTorch: view_test.py BUILD_FOLDER SOURCE_FOLDER

Each test runs with every CPython of the machine that is read (python3.9 to python3.14 of the PATH, pyenv's too), or
with those that CULPRIT_TEST_PYTHONS names (paths with colons between).
"""
import glob
import json
import os
import re
import shutil
import signal
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
EMBEDDED = os.path.join(BUILD, "subjects", "embedded_python")
TENSOR = 700 * 1024
# The programs find the stand-ins in any mode of the interpreter, -I too.
FAKES = f"import sys; sys.path[:0] = [{os.path.join(SOURCE, 'tests', 'subjects', 'python_fakes')!r}, {HERE!r}]\n"
TORCH = FAKES + f"import torch\nTENSOR = {TENSOR}\n"
KEEP = TORCH + "kept = torch.empty(TENSOR)\n"
LOOP = "for _ in range(99): pass\n"  # the interpreter serves the library between two rounds


def environment(**more):
    result = {key: value for key, value in os.environ.items()
              if not key.startswith(("CULPRIT_", "PYTHON", "LD_PRELOAD"))}
    result.pop("NVTX_INJECTION64_PATH", None)
    result.update({"LD_LIBRARY_PATH": os.path.join(BUILD, "simcuda"), "NO_COLOR": "1", "DEBUGINFOD_URLS": "",
                   "FAKE_C10_CUDA": os.path.join(BUILD, "subjects", "libc10_cuda.so"),
                   "PYTHONDONTWRITEBYTECODE": "1", **more})
    return result


def interpreters():
    """{version: path}"""
    named = os.environ.get("CULPRIT_TEST_PYTHONS")
    candidates = named.split(":") if named else [
        "python3", *(f"python3.{minor}" for minor in range(9, 15)),
        *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))]
    ask = "import sys; print(*sys.version_info[:2], sep='.'); print(sys.executable)"
    found = {}
    for candidate in candidates:
        try:
            done = subprocess.run([candidate, "-c", ask], capture_output=True, text=True, timeout=60, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            version, path = done.stdout.split("\n")[:2]
            if 9 <= int(version.split(".")[1]) <= 14:
                found.setdefault(version, path)
    return found


PYTHONS = interpreters()


def each_python(test):
    def run(self):
        for version, python in sorted(PYTHONS.items()):
            with self.subTest(python=version):
                self.clean()
                test(self, python)

    run.__doc__ = test.__doc__
    return run


KEEPERS = """
import collections, contextvars, functools, gc, queue
def make(): return torch.empty(TENSOR)
class Slots:
    __slots__ = ("field",)
class Owner:
    shared = make()
    def __init__(self, value): self.value = value
    def method(self): pass
    @functools.lru_cache(maxsize=None)
    def cached(self, n): return make()
slots = Slots(); slots.field = make()
owner = Owner([make()])
owner.cached(1)
bound = Owner(make()).method
def closure():
    inside = make()
    return lambda: inside
call = closure()
def default(value=make(), *, keyword=make()): pass
partial = functools.partial(print, make())
def generate():
    inside = make()
    yield 1
stream = generate(); next(stream)
async def serve():
    inside = make()
    await pause
class Pause:
    def __await__(self): yield
pause = Pause(); task = serve(); task.send(None)
def fail():
    inside = make()
    raise ValueError("x")
try: fail()
except ValueError as error: failure = error
context = contextvars.ContextVar("context"); context.set(make())
nested = {"one": {"two": make()}}
replay = collections.deque([make()])
ordered = collections.OrderedDict(key=make())
work = queue.Queue(); work.put(make())
one = make(); other = [one]
gc.disable()
class Node: pass
node = Node(); node.self = node; node.data = make(); del node
"""
KEPT_PATHS = (
    "`Owner.shared`", "`slots.field`", "`owner.value`, a list of 1", "`Owner.cached -> its cache`, a dict of 1",
    "`bound.__self__.value`", "`call -> inside, a variable of its closure`", "`default -> a default value`",
    "`default.__kwdefaults__['keyword']`", "`partial.args`, a tuple of 1", "`stream -> generate() line 27: inside`",
    "`task -> serve() line 31: inside`", "`failure.__traceback__ -> fail() line 37: inside`",
    "`context, a context variable`", "`nested['one']['two']`", "`replay`, a deque of 1", "`ordered['key']`",
    "`work.queue`, a deque of 1", "shared by `one` and `other`: free both")


class Views(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="culprit-view-")
        self.addCleanup(shutil.rmtree, self.folder)

    def clean(self):
        shutil.rmtree(self.folder)
        os.mkdir(self.folder)

    def preloaded(self, **more):
        return environment(**{"LD_PRELOAD": LIBRARY, "CULPRIT_QUIET": "1",
                              "CULPRIT_OUT": os.path.join(self.folder, "%p.dump"), **more})

    def start(self, python, text, *options, preload=True, **more):
        command = [python, *options, "-c", text] if isinstance(python, str) else [*python, text]
        return subprocess.Popen(command, env=self.preloaded(**more) if preload else environment(**more),
                                cwd=self.folder,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_python(self, python, text, *options, code=0, **more):
        process = self.start(python, text, *options, **more)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, err)
        return out, err

    def both_ways(self, python, text, *options, code=0, **more):
        """A program runs with the library as without it. Returns its output."""
        ends = []
        for preload in False, True:
            out, err = self.run_python(python, text, *options, code=code, preload=preload, **more)
            ends.append((out, re.sub("0x[0-9a-f]+", "0x", err)))
        self.assertEqual(ends[0], ends[1])
        return ends[0][0]

    def views(self):
        """The views beside the dumps, by pid."""
        found = {}
        for path in glob.glob(os.path.join(self.folder, "*.dump.python.json")):
            with open(path, encoding="utf-8") as file:
                found[int(os.path.basename(path).split(".")[0])] = json.load(file)
        self.assertEqual(glob.glob(os.path.join(self.folder, "*.part")), [])
        return found

    def view(self):
        view, = self.views().values()
        return view

    def report(self, *options):
        dump, = glob.glob(os.path.join(self.folder, "*.dump"))
        return reports.read_report(CULPRIT, dump, *options)

    def live_in_caches(self):
        """The finding's text, "" if there is none."""
        return "".join(one["text"] for one in self.report()["findings"] if one["finding"] == "live-in-caches")

    def keepers(self, *source, pool="PyTorch caching allocator"):
        done = subprocess.run([CULPRIT, "tensors", "--all", "--format", "json", *map(str, source)],
                              env=environment(CULPRIT_LIBRARY=LIBRARY),
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        inside, = (cache for cache in json.loads(done.stdout)["dumps"][0]["caches"] if cache["pool"] == pool)
        self.assertEqual(sum(row["bytes"] for row in inside["kept"]), inside["live_bytes"])
        return inside

    def check_kept(self, view, holder="`kept`", taken="exit"):
        self.assertEqual(view["taken"], taken)
        self.assertEqual(sum(segment["live_bytes"] for segment in view["caches"][0]["segments"]), TENSOR)
        self.assertEqual([held["holders"] for held in view["objects"]], [[holder]])


class Situations(Views):
    @each_python
    def test_preloaded_alone_in_each_mode(self, python):
        for options in (), ("-I",), ("-S",), ("-E",), ("-I", "-S"), ("-OO", "-bb"), ("-W", "error", "-X", "dev"):
            with self.subTest(options=options):
                self.assertEqual(self.run_python(python, KEEP, *options), ("", ""))
                self.check_kept(self.view())
                self.clean()

    @each_python
    def test_in_a_virtual_environment(self, python):
        venv = os.path.join(self.folder, "venv")
        subprocess.run([python, "-m", "venv", "--without-pip", "--symlinks", venv], check=True)
        self.run_python(os.path.join(venv, "bin", "python"), KEEP)
        self.check_kept(self.view())

    @each_python
    def test_culprit_run(self, python):
        out = os.path.join(self.folder, "1.dump")
        done = subprocess.run([CULPRIT, "run", "--out", out, "--", python, "-c", KEEP],
                              env=environment(CULPRIT_LIBRARY=LIBRARY), capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_kept(self.view())
        self.assertIn("700 KiB, kept by `kept`", done.stderr)

    @each_python
    def test_attach(self, python):
        """The process makes no CUDA call after the attach."""
        process = self.start(python, TORCH + "kept = torch.empty(TENSOR); print('ready', flush=True)\n"
                             "while sys.stdin.buffer.raw.read(1): pass", preload=False)
        self.assertEqual(process.stdout.readline(), "ready\n")
        dump = os.path.join(self.folder, "1.dump")
        done = subprocess.run([CULPRIT, "attach", str(process.pid), "--out", dump],
                              env=environment(CULPRIT_LIBRARY=LIBRARY), capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(process.communicate("xx", timeout=60), ("", ""))
        self.assertEqual(process.returncode, 0)
        self.check_kept(self.view())

    def test_the_library_needs_no_folder(self):
        """Alone in a folder that cannot be written to, and that the process does not see later."""
        alone = os.path.join(self.folder, "alone")
        os.mkdir(alone)
        library = shutil.copy(LIBRARY, alone)
        os.chmod(alone, 0o500)
        self.addCleanup(os.chmod, alone, 0o700)
        for python in PYTHONS.values():
            self.run_python(python, KEEP, LD_PRELOAD=library, PYTHONDONTWRITEBYTECODE="")
            self.assertEqual(os.listdir(alone), ["libculprit.so"])
        self.assertEqual(len(self.views()), len(PYTHONS))

    @each_python
    def test_embedded_and_started_again(self, python):
        ask = ("from sysconfig import get_config_var as get\n"
               "print(get('LIBDIR') + '/' + get('INSTSONAME'), get('prefix'))")
        library, prefix = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.split()
        if not os.path.exists(library):
            return
        self.run_python([EMBEDDED, library], KEEP, PYTHONHOME=prefix)
        self.check_kept(self.view())
        self.clean()
        # In the second interpreter all modules are new, and so is the code of the view.
        text = FAKES + "import fake_cuda, threading\nkept = fake_cuda.Memory(1001)\nfor _ in range(99): pass\n"
        text += "print(threading.Thread._set_native_id.__code__.co_filename == '<culprit>')"
        ends = [subprocess.run([EMBEDDED, library, text, "2"], timeout=60, capture_output=True, text=True, check=False,
                               env=environ(PYTHONHOME=prefix)) for environ in (environment, self.preloaded)]
        # Where ctypes cannot be loaded again (3.12), the process ends so without the library, too.
        self.assertIn(ends[0].stdout, ("False\nFalse\n", "False\n"))
        self.assertEqual(ends[1].stdout, ends[0].stdout.replace("False", "True"))
        self.assertEqual(*[(end.returncode, end.stderr) for end in ends])

    @each_python
    def test_subinterpreters_are_left_alone(self, python):
        script = ("try:\n    import _interpreters as subs\nexcept ImportError:\n    import _xxsubinterpreters as subs\n"
                  "arguments = ('legacy',) if subs.__name__ == '_interpreters' else ()\n"
                  "sub = subs.create(*arguments) if arguments else subs.create(isolated=False)\n"
                  "failed = subs.{run}(sub, {text!r})\nassert not failed, failed\nsubs.destroy(sub)\n")
        inner = FAKES + "import fake_cuda\nkept = [fake_cuda.Memory(5) for _ in range(9)]\nfor _ in range(99): pass\n"
        text = script.format(run="run_string", text=inner)
        self.both_ways(python, text)
        self.run_python(python, TORCH + "kept = torch.empty(TENSOR)\n" + text)
        self.assertIn(TENSOR, [held["bytes"] for view in self.views().values() for held in view["objects"]])

    @each_python
    def test_fork_before_and_after(self, python):
        children = ("import os\n"
                    "def child(when):\n"
                    "    pid = os.fork()\n"
                    "    if pid == 0:\n"
                    "        globals()['kept'] = torch.empty(TENSOR)\n"
                    "        sys.exit(0)\n"
                    "    assert os.waitpid(pid, 0)[1] == 0, when\n")
        self.run_python(python, TORCH + children + "child('before'); child('before')")
        views = self.views()
        self.assertEqual(len(views), 2)
        for view in views.values():
            self.check_kept(view)
        self.clean()
        # The simulated driver serves a child as well. The parent's code is in the child already.
        self.run_python(python, TORCH + children + "one = torch.empty(2 << 20); child('after')")
        # In the child the simulated driver may give the address of `one` a second time.
        holders = [held["holders"] for view in self.views().values() for held in view["objects"]]
        self.assertIn("`kept`", [name for names in holders for name in names])

    @each_python
    def test_a_child_of_multiprocessing(self, python):
        self.run_python(python, TORCH + "import multiprocessing\ndef work():\n"
                        "    globals()['kept'] = torch.empty(TENSOR)\n"
                        "child = multiprocessing.get_context('fork').Process(target=work)\n"
                        "child.start(); child.join(); assert child.exitcode == 0")
        self.check_kept(self.view())

    @each_python
    def test_the_main_module_has_one_name(self, python):
        """multiprocessing has it as __mp_main__, too; a child that it spawned has that as its name."""
        self.run_python(python, TORCH + "import multiprocessing\nkept = torch.empty(TENSOR)\n"
                                        "assert sys.modules['__mp_main__'] is sys.modules['__main__']")
        self.check_kept(self.view())
        self.clean()
        self.write_program(TORCH + "import multiprocessing\nif __name__ == '__main__':\n"
                           "    child = multiprocessing.get_context('spawn').Process(target=print)\n"
                           "    child.start(); child.join(); assert child.exitcode == 0\n"
                           "else:\n    assert __name__ == '__mp_main__'\n    kept = torch.empty(TENSOR)\n")
        self.run_python([python], "train.py")
        self.check_kept(self.view())

    @each_python
    def test_a_module_has_its_own_name(self, python):
        """There are aliases, one of them older, and a module whose name raises when it is compared."""
        self.run_python(python, TORCH + "import types\nmodel = types.ModuleType('model')\n"
                                        "class Name(str):\n    def __eq__(self, other): raise RuntimeError(other)\n"
                                        "    __hash__ = str.__hash__\n"
                                        "odd = types.ModuleType('odd'); odd.__name__ = Name('x')\n"
                                        "sys.modules.update(alias=model, model=model, another=model, odd=odd)\n"
                                        "exec('def run(work): work()', vars(odd))\n"
                                        "model.kept = torch.empty(TENSOR)\n"
                                        "import atexit, os\nodd.run(lambda: atexit._run_exitfuncs())\nos._exit(0)")
        self.check_kept(self.view(), "`model.kept`")

    @each_python
    def test_switched_off(self, python):
        text = ("kept = torch.empty(TENSOR)\nimport threading, atexit\n"
                "print(threading.Thread._set_native_id.__code__.co_filename == '<culprit>')")
        self.assertEqual(self.run_python(python, TORCH + text)[0], "True\n")
        self.assertEqual(len(self.views()), 1)
        self.clean()
        self.assertEqual(self.run_python(python, TORCH + text, CULPRIT_PYTHON="0")[0], "False\n")
        self.assertEqual(self.views(), {})

    @each_python
    def test_names_of_threads_that_are_older_than_the_first_call(self, python):
        text = FAKES + ("import fake_cuda, threading\n"
                        "kept, ready, go = [], threading.Barrier(4), threading.Barrier(4)\n"
                        "def work(wait):\n    if wait:\n        ready.wait(); go.wait()\n"
                        "    kept.append(fake_cuda.Memory(1001))\n"
                        "threads = [threading.Thread(target=work, args=(True,), name=f'early {i}') for i in range(3)]\n"
                        "for thread in threads: thread.start()\n"
                        "ready.wait()\nfake_cuda.Memory(7).free()\n"
                        "for _ in range(1000): pass\n"
                        "go.wait()\n"
                        "threads.append(threading.Thread(target=work, args=(0,), name='late'))\nthreads[-1].start()\n"
                        "for thread in threads: thread.join()\n"
                        "import os; os._exit(0)")
        self.run_python(python, text)
        names = {thread["name"] for group in self.report()["leaks"] for thread in group["threads"]}
        self.assertEqual(names, {"early 0", "early 1", "early 2", "late"})

    @each_python
    def test_names_of_threads_that_the_main_thread_waits_for(self, python):
        """It runs no code between the first CUDA call and the threads' end."""
        text = FAKES + ("import fake_cuda, threading\nfrom concurrent.futures import ThreadPoolExecutor\nkept = []\n"
                        "def work(): kept.append(fake_cuda.Memory(1001))\n"
                        "thread = threading.Thread(target=work, name='loader')\n{first}thread.start(); thread.join()\n"
                        "with ThreadPoolExecutor(1, thread_name_prefix='pool') as pool: pool.submit(work).result()\n"
                        "thread = threading.Thread(target=work, name='last')\nthread.start(); thread.join()\n"
                        "import os; os._exit(0)")
        for first in "", "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)\n":
            self.run_python(python, text.format(first=first))
            names = {thread["name"] for group in self.report()["leaks"] for thread in group["threads"]}
            self.assertEqual(names, {"loader", "pool_0", "last"})
            self.clean()

    @each_python
    def test_out_of_memory(self, python):
        fail = ("import ctypes\ndef fill(size):\n    activations = torch.empty(TENSOR)\n"
                "    pointer = ctypes.c_uint64()\n"
                "    if torch.cuda._driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 2:\n"
                "        raise MemoryError('out of GPU memory')\n")
        # The program recovers, so that its end has nothing to tell.
        out, _ = self.run_python(python, TORCH + fail + "import gc\ntry:\n    fill(1 << 50)\nexcept MemoryError:\n"
                                                        "    pass\n"
                                 "gc.collect(); print(sum(block['state'] == 'active_allocated' for segment in\n"
                                 "          torch.cuda.memory_snapshot() for block in segment['blocks']))")
        self.assertEqual(out, "0\n")  # the view keeps nothing alive
        view = self.view()
        self.assertEqual((view["taken"], view["objects"]), ("exit", []))
        self.assertEqual(view["ran_out"]["taken"], "out-of-memory")
        held, = view["ran_out"]["objects"]
        self.assertIn("`activations`, a local variable of fill", held["holders"][0])
        # A program that is killed then has told it already.
        self.clean()
        self.run_python(python, TORCH + fail + "import os\ntry:\n    fill(1 << 50)\nexcept MemoryError as error:\n"
                                               "    kept = error\n"
                        "for _ in range(99): pass\nos.kill(os.getpid(), 9)", code=-9)
        view = self.view()
        self.assertEqual(view["taken"], "out-of-memory")
        self.assertIn("`activations`, a local variable of fill", view["objects"][0]["holders"][0])

    @each_python
    def test_out_of_memory_in_a_thread(self, python):
        """The main thread runs Python code again after all tensors are gone."""
        self.run_python(python, TORCH + "import threading\ntorch.empty(5)\n" + LOOP +
                        "def fill():\n    activations = torch.empty(TENSOR)\n    torch.empty(1 << 50)\n"
                        "def work():\n    try:\n        fill()\n    except torch.cuda.OutOfMemoryError:\n        pass\n"
                        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n" + LOOP)
        held, = self.view()["ran_out"]["objects"]
        self.assertIn("`activations`, a local variable of fill", held["holders"][0])

    @each_python
    def test_a_snapshot_of_the_library(self, python):
        """culprit_snapshot() of culprit.h, in a process with Python."""
        take = ("import ctypes\nassert ctypes.CDLL(None).culprit_api_snapshot(b'7.dump') == 0\n"
                "for _ in range(99): pass\ndel kept\n")
        self.run_python(python, TORCH + "kept = torch.empty(TENSOR)\n" + take)
        self.check_kept(self.views()[7], taken="snapshot")

    @each_python
    def test_keepers(self, python):
        """The ways in which each version of Python keeps objects."""
        text = TORCH + KEEPERS
        out, err = self.run_python(python, text)
        self.assertEqual((out, err), ("", ""))
        dump, = glob.glob(os.path.join(self.folder, "*.dump"))
        done = subprocess.run([CULPRIT, "tensors", "--all", "--format", "json", dump], env=environment(),
                              capture_output=True, text=True, check=True)
        inside, = json.loads(done.stdout)["dumps"][0]["caches"]
        found = {(row["kind"], row["path"]): row["bytes"] for row in inside["kept"]}
        expected = {("variable", path): TENSOR for path in KEPT_PATHS}
        expected[("garbage", "a reference cycle with a Node")] = TENSOR
        self.assertEqual(sorted(found.items()), sorted(expected.items()))
        self.assertEqual(sum(found.values()), inside["live_bytes"])

    @each_python
    def test_keepers_of_saved_tensors(self, python):
        """The graph of each loss, as autograd keeps it; and no hook of the program runs."""
        text = TORCH + ("net = torch.nn.Linear(8 << 20)\nlosses = []\nclass Metric:\n    total = None\n"
                        "metric = Metric()\n"
                        "for _ in range(5):\n    losses.append(net(torch.Tensor(1 << 20)).square().mean())\n"
                        "metric.total = net(torch.Tensor(3 << 20)).mean()\n"
                        "torch.hook_saved_tensors(True)\nhooked = net(torch.Tensor(TENSOR)).mean()\n"
                        "class Box:\n    def __init__(self, tensor): self.tensor = tensor\n"
                        "torch.hook_saved_tensors(Box)\npacked = net(torch.Tensor(2 << 20)).mean()\n"
                        "torch.hook_saved_tensors(lambda tensor: 'file')\nfiled = net(torch.Tensor(4 << 20)).mean()\n")
        self.assertEqual(self.run_python(python, text), ("", ""))
        dump, = glob.glob(os.path.join(self.folder, "*.dump"))
        done = subprocess.run([CULPRIT, "tensors", dump], env=environment(), capture_output=True, text=True, check=True)
        rows = re.findall(r"^   (\S+ \S+) .*?% +(\S.*?)  +(\S.*)$", done.stdout, re.M)
        graph = "-> Tensor.grad_fn -> saved tensors"
        self.assertEqual(rows[:4], [
            ("15.0 MiB", "autograd graph", f"`losses`, a list of 5 {graph}"),
            ("8.00 MiB", "parameters and buffers", "`net`"), ("6.00 MiB", "autograd graph", f"`metric.total` {graph}"),
            ("4.00 MiB", "autograd graph", f"`packed` {graph}")])
        self.assertIn("2 saved tensors behind hooks, which are not read", done.stdout)

    @each_python
    def test_workspaces_of_cublas(self, python):
        self.both_ways(python, TORCH + "kept = torch.empty(TENSOR)\n"
                                       "for handle in range(5): torch.give_workspace(handle, 2 << 20)\n")
        dump, = glob.glob(os.path.join(self.folder, "*.dump"))
        rows = [(row["kind"], row["path"], row["bytes"]) for row in self.keepers(dump)["kept"]]
        self.assertEqual(rows, [("workspaces", "cuBLAS, through PyTorch", 10 << 20), ("variable", "`kept`", TENSOR)])

    @each_python
    def test_keepers_of_neighbours(self, python):
        """Handlers that the interpreter alone has, parts of a torch.nn module, a chain, a module of another class."""
        text = TORCH + """
import signal, types
def watch():
    batch = torch.empty(TENSOR)
    signal.signal(signal.SIGUSR1, lambda *_: batch)
watch()
class Lazy(types.ModuleType):
    def __getattr__(self, name): raise SystemExit(name)
sys.modules["lazy"] = Lazy("lazy")
sys.modules["lazy"].table = torch.empty(TENSOR)
class Node:
    def __init__(self, following): self.data, self.next = torch.empty(TENSOR), following
head = Node(Node(Node(Node(None))))
layers = torch.nn.Module()
layers._modules["0"] = torch.nn.Module()
layers._modules["0"].cache = torch.empty(TENSOR)
node = torch.nn.Linear(4)(torch.Tensor(TENSOR)).grad_fn
def made():
    batch = torch.empty(3 * TENSOR)
    class Inner:
        def batch(self): return batch
    return Inner()
inner = made()
"""
        self.assertEqual(self.run_python(python, text), ("", ""))
        dump, = glob.glob(os.path.join(self.folder, "*.dump"))
        found = {row["path"]: row["bytes"] for row in self.keepers(dump)["kept"] if row["bytes"] >= TENSOR}
        self.assertEqual(found, {
            "`the handler of SIGUSR1 -> batch, a variable of its closure`": TENSOR, "`lazy.table`": TENSOR,
            "`head.data`": TENSOR, "`head.next.data`": TENSOR, "`head.next...data`": 2 * TENSOR,
            "`layers[0].cache`": TENSOR, "`inner -> its class.batch -> batch, a variable of its closure`": 3 * TENSOR,
            "`node` -> Tensor.grad_fn -> saved tensors": TENSOR})

    @each_python
    def test_keepers_of_frozen_objects(self, python):
        """gc.get_objects() leaves out the objects of gc.freeze()."""
        self.run_python(python, TORCH + "import gc\nclass Trainer: pass\ntrainer = Trainer()\n"
                                        "trainer.history = [torch.empty(TENSOR) for _ in range(3)]\ngc.freeze()\n"
                                        "later = {'a': torch.empty(TENSOR)}\n")
        dump, = glob.glob(os.path.join(self.folder, "*.dump"))
        rows = [(row["path"], row["bytes"]) for row in self.keepers(dump)["kept"]]
        self.assertEqual(rows, [("`trainer.history`, a list of 3", 3 * TENSOR), ("`later['a']`", TENSOR)])

    @each_python
    def test_keepers_of_tensors_of_subclasses(self, python):
        """They are read as PyTorch's own class has them: no attribute of the program."""
        self.run_python(python, TORCH + "class Named(torch.Tensor):\n"
                        "    is_cuda = is_leaf = grad = grad_fn = property(lambda self: sys.exit('is_cuda'))\n"
                        "    def untyped_storage(self): sys.exit('untyped_storage')\n"
                        "    def __getattr__(self, name): sys.exit(name)\n"
                        "named = Named.__new__(Named)\nvars(named).update(vars(torch.Tensor(TENSOR)))\n")
        dump, = glob.glob(os.path.join(self.folder, "*.dump"))
        self.assertEqual([(row["path"], row["bytes"]) for row in self.keepers(dump)["kept"]], [("`named`", TENSOR)])

    @each_python
    def test_keepers_in_a_pool_of_cupy(self, python):
        self.run_python(python, FAKES + f"import cupy\nkept = [cupy.ndarray({TENSOR}) for _ in range(3)]\n"
                                        f"class Cache: pass\ncache = Cache(); cache.last = cupy.ndarray({TENSOR})\n")
        dump, = glob.glob(os.path.join(self.folder, "*.dump"))
        inside = self.keepers(dump, pool="CuPy memory pool")
        self.assertEqual([(row["path"], row["bytes"]) for row in inside["kept"]],
                         [("`kept`, a list of 3", 3 * TENSOR), ("`cache.last`", TENSOR)])

    @each_python
    def test_history(self, python):
        """PyTorch's own lock is held while the program initializes CUDA."""
        self.write_program(f"import torch\nkept = torch.empty({TENSOR})\nimport atexit, os\n"
                           "atexit._run_exitfuncs()\nos._exit(0)\n")
        self.run_python(python, FAKES + "import runpy; runpy.run_path('train.py')", CULPRIT_TORCH_HISTORY="1")
        block, = self.view()["caches"][0]["segments"][0]["blocks"]
        self.assertEqual((os.path.basename(block["file"]), block["line"]), ("train.py", 2))
        self.clean()
        self.run_python(python, KEEP, CULPRIT_TORCH_HISTORY="1")
        block, = self.view()["caches"][0]["segments"][0]["blocks"]
        self.assertEqual((block["file"], block["line"]), ("<string>", 4))
        self.clean()
        # PyTorch comes after the first CUDA call.
        text = FAKES + "import fake_cuda\nkept = fake_cuda.Memory(5)\n" + LOOP + KEEP
        self.run_python(python, text, CULPRIT_TORCH_HISTORY="1")
        view = self.view()
        self.assertEqual(view["caches"][0]["segments"][0]["blocks"][0].get("line"), 8)

    def write_program(self, text):
        with open(os.path.join(self.folder, "train.py"), "w", encoding="utf-8") as file:
            file.write(text)


CALL = "import fake_cuda\nkept = fake_cuda.Memory(1001)\nfor _ in range(999): pass\n"
STATE = """
def state():
    import sys, warnings, signal, gc
    return [list(sys.path), [id(x) for x in sys.meta_path], [id(x) for x in sys.path_hooks],
            sorted(sys.path_importer_cache), sorted(set(sys.modules) - {"atexit", "gc", "_signal"}), sys.argv,
            list(warnings.filters),
            sys.gettrace(), sys.getprofile(), sys.getswitchinterval(), sys.getrecursionlimit(), sys.excepthook,
            sys.flags, vars(sys).keys(), sys.dont_write_bytecode, gc.get_threshold(), gc.callbacks,
            [signal.getsignal(i) for i in range(1, 60)], sorted(vars(__import__("builtins"))), sorted(globals())]
"""


class Guests(Views):
    """A program ends as it would without the library: its output, its errors and its exit code are the same."""

    @each_python
    def test_nothing_is_left_in_the_interpreter(self, python):
        self.both_ways(python, FAKES + STATE + "import fake_cuda, threading\nbefore = state(); before = state()\n"
                       "import ctypes\nkept = fake_cuda.Memory(1)\nfor _ in range(99): pass\n"
                       "before[-1].append('kept')\n"
                       "before[-1].append('ctypes'); before[-1].append('_'); before[-1].sort(); after = state()\n"
                       "print([i for i in range(len(after)) if after[i] != before[i]], sys.modules.get('culprit'))\n"
                       "before[-1].extend(['before']); before[-1].sort()")

    @each_python
    def test_trace_and_profile_functions_see_the_program_only(self, python):
        text = FAKES + ("import fake_cuda, threading\nseen = []\ndef note(frame, event, argument):\n"
                        "    seen.append((frame.f_code.co_filename, frame.f_code.co_name, event)); return note\n"
                        "def work():\n    kept = fake_cuda.Memory(1)\n    for _ in range(99): pass\n    return kept\n"
                        "sys.{set}(note)\nkept = work()\nsys.{set}(None)\nprint(seen)")
        for setter in "settrace", "setprofile":
            self.both_ways(python, text.format(set=setter))
        self.both_ways(python, FAKES + "import fake_cuda, cProfile, pstats\nprofile = cProfile.Profile()\n"
                                       "profile.enable()\n"
                       "kept = fake_cuda.Memory(1)\nfor _ in range(99): pass\nprofile.disable()\n"
                       "print(sorted(key[2] for key in pstats.Stats(profile).stats))")

    @each_python
    def test_audit_hooks(self, python):
        """They see no event of the view before the end, and may refuse those that they see."""
        # Security tools must see the code that is compiled.
        self.both_ways(python, FAKES + "import fake_cuda\nseen = []\n"
                       "def see(event, arguments):\n"
                       "    if 'ctypes' not in event and arguments[1:2] != ('<culprit>',):\n"
                       "        seen.append((event, arguments))\n"
                       "sys.addaudithook(see)\nkept = fake_cuda.Memory(1)\nfor _ in range(99): pass\nprint(seen)")
        self.clean()
        self.both_ways(python, TORCH + "kept = torch.empty(TENSOR)\nfor _ in range(99): pass\n"
                       "def refuse(event, _):\n    raise RuntimeError(event)\nsys.addaudithook(refuse)")
        self.assertEqual(self.report()["summary"]["view_failures"], 0)
        self.assertEqual(self.view()["objects"], [])  # gc.get_objects() was refused
        self.clean()
        self.both_ways(python, FAKES + "def refuse(event, _):\n    if 'ctypes' not in event and event != 'import':\n"
                       "        raise RuntimeError(event)\nimport fake_cuda\nsys.addaudithook(refuse)\n" + CALL)

    @each_python
    def test_import_hooks_and_a_replaced_import(self, python):
        hooks = ("class Finder:\n    def find_spec(self, name, *_):\n        raise RuntimeError('asked for ' + name)\n"
                 "import builtins\noriginal = builtins.__import__\n"
                 "def replaced(name, *rest, **more):\n    print('import', name); return original(name, *rest, **more)\n"
                 "sys.meta_path.insert(0, Finder()); builtins.__import__ = replaced\n")
        self.both_ways(python, TORCH + hooks + "kept = torch.empty(TENSOR)\nfor _ in range(99): pass")
        self.check_kept(self.view())

    @each_python
    def test_importtime(self, python):
        imports = []
        for preload in False, True:
            _, err = self.run_python(python, KEEP, "-X", "importtime", preload=preload)
            imports.append([line.split("|")[-1] for line in err.splitlines()])
        self.assertEqual(imports[0], imports[1])

    @each_python
    def test_exit_handlers_keep_their_order(self, python):
        self.both_ways(python, TORCH + "import atexit\natexit.register(print, 'first')\n"
                       "kept = torch.empty(TENSOR)\nfor _ in range(99): pass\natexit.register(print, 'last')")
        self.check_kept(self.view())
        # A program may take all of them away.
        self.both_ways(python, TORCH + "import atexit\nkept = torch.empty(TENSOR)\nfor _ in range(99): pass\n"
                                       "atexit._clear()")

    @each_python
    def test_ends_while_the_call_waits(self, python):
        ends = ("sys.exit(3)", "os._exit(3)", "raise SystemExit(3)", "os.kill(os.getpid(), 15)", "os.abort()",
                "os.execv(sys.executable, [sys.executable, '-c', 'import sys; sys.exit(3)'])")
        codes = (3, 3, 3, -signal.SIGTERM, -signal.SIGABRT, 3)
        for end, code in zip(ends, codes):
            with self.subTest(end=end):
                self.both_ways(python, TORCH + f"import os\ndef end(_): {end}\n"
                               f"end(torch.empty(TENSOR))", code=code)
        # In a thread while the main thread ends.
        self.both_ways(python, FAKES + "import fake_cuda, threading\ndef work():\n"
                                       "    while True: fake_cuda.Memory(9).free()\n"
                       "for _ in range(4): threading.Thread(target=work, daemon=True).start()\n"
                       "import time; time.sleep(0.02)")

    @each_python
    def test_the_main_thread_never_runs_python_again(self, python):
        # The numbers of pause() and of ppoll(), with which some processors have to do.
        self.both_ways(python, TORCH + "import os, threading, ctypes\n"
                       "def is_in_pause():\n    with open(f'/proc/self/task/{os.getpid()}/syscall') as file:\n"
                       "        return file.read().split()[0] in ('34', '73')\n"
                       "def work():\n    while not is_in_pause(): pass\n"
                       "    kept = torch.empty(TENSOR)\n    for _ in range(9999): pass\n"
                       "    os._exit(5)\n"
                       "threading.Thread(target=work).start()\nctypes.CDLL(None).pause()", code=5)
        self.assertEqual(self.views(), {})
        self.assertIn("not known: Python's main thread ran no code after the first CUDA call", self.live_in_caches())

    @each_python
    def test_an_end_without_exit_handlers_is_said(self, python):
        """The report says that no view was taken, as it does where the interpreter never served the library."""
        self.run_python(python, KEEP + LOOP + "import os; os._exit(0)")
        self.assertEqual(self.views(), {})
        self.assertIn("not known: Python ran no exit handlers that look inside", self.live_in_caches())
        self.clean()
        self.run_python(python, KEEP + LOOP)
        self.assertEqual(self.report()["notes"], [])

    @each_python
    def test_deep_recursion(self, python):
        text = ("def deep(n):\n    if n == 0:\n        kept = make(); x = [i for i in range(99)]\n"
                "        return kept\n    return deep(n - 1)\n"
                "def deepest():\n    try:\n        kept = make()\n        return deepest()\n"
                "    except RecursionError:\n        return make()\n")
        make = "def make(): return torch.empty(TENSOR)\n"
        for limit, depth in (60, 20), (1000, 900), (30000, 9000):
            with self.subTest(limit=limit):
                self.both_ways(python, TORCH + "torch.cuda._lazy_init\n" + make + text +
                               f"sys.setrecursionlimit({limit})\nkept = deep({depth}); print('fine')")
        self.clean()
        self.both_ways(python, FAKES + "import fake_cuda\ndef make(): return fake_cuda.Memory(5)\n" + text +
                       "sys.setrecursionlimit(200)\nkept = deepest(); print('fine', flush=True)\n"
                       "import os; os._exit(0)")

    @each_python
    def test_a_signal_handler_of_the_program_may_raise(self, python):
        """While the view is taken, too: the heap has many objects, so that this takes long."""
        text = TORCH + ("import signal, ctypes\nclass Alarm(Exception): pass\n"
                        "def ring(*_): raise Alarm\nsignal.signal(signal.SIGALRM, ring)\n"
                        "many = [[i] for i in range(600000)]\n"
                        "kept = torch.empty(5)\nfor _ in range(99): pass\n"
                        "def fail():\n    pointer = ctypes.c_uint64()\n"
                        "    torch.cuda._driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 50))\n"
                        "import time\n"
                        # A signal just before pause() would leave it waiting for another one.
                        "try:\n    signal.setitimer(signal.ITIMER_REAL, {delay})\n    fail()\n"
                        "    while True: time.sleep(0.01)\n"
                        "except Alarm:\n    print('rang')\n")
        self.assertEqual(self.run_python(python, text.format(delay=0.02), preload=False), ("rang\n", ""))
        for delay in 0.001, 0.02, 0.05, 0.2:
            self.assertEqual(self.run_python(python, text.format(delay=delay)), ("rang\n", ""))

    @each_python
    def test_warnings_tracemalloc_and_output(self, python):
        self.both_ways(python, TORCH + "import tracemalloc, warnings\ntracemalloc.start(3)\n"
                                       "warnings.simplefilter('error')\n"
                       "kept = torch.empty(TENSOR)\nfor _ in range(99): pass\n"
                       "print(tracemalloc.is_tracing(), tracemalloc.get_traceback_limit(), len(warnings.filters))\n"
                       "print(sys.exc_info(), file=sys.stderr)\n"
                       "try:\n    1 / 0\nexcept ZeroDivisionError:\n    more = torch.empty(5)\n"
                       "    for _ in range(99): pass\n"
                       "    print(sys.exc_info()[0])")

    @each_python
    def test_a_module_with_the_name_of_the_package(self, python):
        os.mkdir(os.path.join(self.folder, "mine"))
        with open(os.path.join(self.folder, "mine", "culprit.py"), "w", encoding="utf-8") as file:
            file.write("answer = 42\n")
        self.both_ways(python, TORCH + "kept = torch.empty(TENSOR)\nfor _ in range(99): pass\n"
                       "sys.path.insert(0, 'mine')\nimport culprit\nprint(culprit.answer)")
        self.check_kept(self.view())


if __name__ == "__main__":
    assert PYTHONS, "no CPython that is read"
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
