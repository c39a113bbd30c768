#!/usr/bin/env python3
"""`culprit tensors PID`: the keepers of a running program, in a frozen copy of it
(interpose/inside_python/frozen_copy.h), on the simulated driver with the stand-in for PyTorch: tensors_test.py
BUILD_FOLDER SOURCE_FOLDER"""
import glob
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest

from raw_pointers_test import WAIT
from view_test import CULPRIT, KEEP, LIBRARY, TENSOR, TORCH, Views, each_python, environment

# Threads wait for the GIL, garbage has finalizers, and signals have handlers of the program.
BUSY = TORCH + """
import gc, os, signal, threading
class Garbage:
    def __init__(self): self.me = self
    def __del__(self): os.write(1, b"del %d\\n" % os.getpid())
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"signal %d\\n" % os.getpid()))
half_made = torch.Tensor.__new__(torch.Tensor)  # as in the middle of its constructor
kept = torch.empty(TENSOR)
losses = [torch.empty(TENSOR) for _ in range(3)]
going = True
def spin():
    while going: sum(range(1000))
threads = [threading.Thread(target=spin) for _ in range(3)]
for thread in threads: thread.start()
orders = []
def listen():
    for _ in range(2): orders.append(sys.stdin.buffer.raw.read(1))
listener = threading.Thread(target=listen)
listener.start()
print("ready", flush=True)
rounds = 0
while len(orders) < 2:
    rounds += 1
    if rounds % 10000 == 0: Garbage()
    if orders and len(losses) == 3:
        losses += [torch.empty(TENSOR) for _ in range(2)]
        print("grown", flush=True)
going = False
for thread in threads: thread.join()
print("end", gc.isenabled(), sys.getswitchinterval(), flush=True)
"""


class Running(Views):
    @each_python
    def test_keepers_of_a_running_process(self, python):
        """In a frozen copy, in which no code of the program runs; between two moments; with the library and without."""
        text = BUSY
        ends = []
        for preload in True, False:
            process = self.start(python, text, preload=preload)
            self.assertEqual(process.stdout.readline(), "ready\n")
            before = os.path.join(self.folder, "before.json")
            with open(before, "w", encoding="utf-8") as file:
                file.write(subprocess.run([CULPRIT, "tensors", str(process.pid), "--format", "json"], text=True,
                                          env=environment(CULPRIT_LIBRARY=LIBRARY), timeout=60,
                                          stdout=subprocess.PIPE, check=True).stdout)
            process.stdin.write("x")
            process.stdin.flush()
            lines = list(iter(process.stdout.readline, "grown\n"))
            for _ in range(3):
                os.kill(process.pid, signal.SIGUSR1)
                inside = self.keepers(process.pid, "--since", before)
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
                self.assertEqual(file.read(), "")
            out, err = process.communicate("x", timeout=60)
            self.assertEqual((process.returncode, err), (0, ""))
            lines = [line.strip() for line in lines] + out.splitlines()
            written = {line for line in lines if line.startswith(("del", "signal"))}
            self.assertLessEqual(written, {f"del {process.pid}", f"signal {process.pid}"})
            ends.append([line for line in lines if line not in written])
            rows = {row["path"]: row["bytes"] for row in inside["kept"]}
            self.assertEqual(rows, {"`losses`, a list of 5": 5 * TENSOR, "`kept`": TENSOR})
            grown = [(row["path"], row["grown_bytes"], row["bytes_before"]) for row in inside["grown"]]
            self.assertEqual(grown, [("`losses`, a list of 5", 2 * TENSOR, 3 * TENSOR)])
            self.clean()
        self.assertEqual(ends[0], ends[1])

    @each_python
    def test_a_comprehension_of_a_module(self, python):
        """Global variables are no variables of the frame that runs it."""
        text = KEEP + "def serve():\n" + textwrap.indent(WAIT, "    ") + "[serve() for number in range(1)]\n"
        process = self.start(python, text)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assertEqual([row["path"] for row in self.keepers(process.pid)["kept"]], ["`kept`"])
        self.assertEqual(process.communicate("x", timeout=60), ("", ""))

    @each_python
    def test_pinned_tensors(self, python):
        """Memory of the host is no part of the cache. Its size is known where the process records."""
        text = KEEP + "batch = torch.empty(TENSOR, pin_memory=True)\ntable = [torch.empty(4096, pin_memory=True)] * 2\n"
        for preload in True, False:
            process = self.start(python, text + WAIT, preload=preload)
            self.assertEqual(process.stdout.readline(), "ready\n")
            self.assertEqual([row["path"] for row in self.keepers(process.pid)["kept"]], ["`kept`"])
            if preload:
                inside = self.keepers(process.pid, pool="other arrays and pointers")
                rows = {row["path"]: row["bytes"] for row in inside["kept"]}
                self.assertEqual(rows, {"`batch`": TENSOR, "`table`, a list of 2": 4096})
            self.assertEqual(process.communicate("x", timeout=60), ("", ""))

    def test_a_main_thread_that_runs_no_python(self):
        """The command says what that thread does, and a later request is served."""
        process = self.start(sys.executable, KEEP + "print('ready', flush=True)\nsys.stdin.buffer.raw.read(1)\n"
                                             "print('on', flush=True)\nimport time\n"
                                             "end = time.monotonic() + 60\nwhile time.monotonic() < end: pass")
        self.assertEqual(process.stdout.readline(), "ready\n")
        command = [CULPRIT, "tensors", str(process.pid), "--timeout", "1s"]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("ran no Python code for 1.00 s (it is in read())", done.stderr)
        waiting = subprocess.Popen([CULPRIT, "tensors", str(process.pid), "--timeout", "50s"], env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=20)
        self.assertEqual(waiting.returncode, -signal.SIGINT)
        process.stdin.write("x")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "on\n")
        self.assertEqual([row["path"] for row in self.keepers(process.pid)["kept"]], ["`kept`"])
        process.kill()
        process.communicate()

    def test_watch_names_the_variable_that_keeps_more_and_more(self):
        """Although the segment stays as it is."""
        process = self.start(sys.executable, TORCH + "import time\nfirst = torch.empty(64 << 20)\ndel first\n"
                                             "kept, losses = torch.empty(TENSOR), []\nprint('ready', flush=True)\n"
                                             "end = time.monotonic() + 100\nwhile time.monotonic() < end:\n"
                                             "    losses.append(torch.empty(8192)); time.sleep(0.01)")
        self.assertEqual(process.stdout.readline(), "ready\n")

        def watch(*options):
            """On a machine with other work, six seconds may be too few."""
            for seconds in "6s", "20s":
                command = [CULPRIT, "watch", str(process.pid), "--for", seconds, "--every", "25ms", *options]
                done = subprocess.run(command, env=environment(CULPRIT_LIBRARY=LIBRARY), text=True, capture_output=True,
                                      timeout=90, check=False)
                if done.returncode == 1:
                    break
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            return done.stdout

        self.assertIn(f"culprit watch --tensors {process.pid} names the variables", watch())
        self.assertRegex(watch("--tensors"), r"kept by +\+[0-9.]+ [KM]iB in [0-9.]+ s  `losses`, a list of ")
        result = json.loads(watch("--tensors", "--format", "json"))
        self.assertEqual([row["kind"] for row in result["rows"] if row["verdict"] == "leaking"], ["cache-live"])
        seen, = result["processes"]
        self.assertRegex(seen["grown"][0]["path"], "^`losses`, a list of ")
        self.assertGreater(seen["grown"][0]["grown_bytes"], 50 * 8192)
        self.assertEqual(seen["grown_problem"], "")
        process.kill()
        process.communicate()

    def test_memory_of_a_framework_that_cannot_be_read_is_not_known(self):
        """All of it: a version that is not known, for example."""
        process = self.start(sys.executable, KEEP + "del torch.Tensor\nprint('ready', flush=True)\nimport time\n"
                                             "end = time.monotonic() + 60\nwhile time.monotonic() < end: pass")
        self.assertEqual(process.stdout.readline(), "ready\n")
        row, = self.keepers(process.pid)["kept"]
        self.assertEqual((row["kind"], row["path"]), ("not-known", "the objects could not be read (AttributeError)"))
        process.kill()
        process.communicate()

    def test_a_cache_of_an_unknown_form_is_said_to_be_not_known(self):
        """At the end, and while the program runs."""
        process = self.start(sys.executable, KEEP + "torch.cuda.memory_snapshot = lambda: [{'new': 1}]\n"
                                             "import types; bridge = types.ModuleType('jax._src.xla_bridge')\n"
                                             "class Client:\n"
                                             "    def local_devices(self): return []\n"
                                             "    def live_arrays(self): return [1, 2]\n"
                                             "bridge._backends = {'new': Client()}\n"
                                             "sys.modules[bridge.__name__] = bridge\n"
                                             "print('ready', flush=True)\nimport os, time\n"
                                             "while not os.path.exists('end'): time.sleep(0.01)")
        self.assertEqual(process.stdout.readline(), "ready\n")
        done = subprocess.run([CULPRIT, "tensors", str(process.pid)], env=environment(CULPRIT_LIBRARY=LIBRARY),
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("PyTorch's cache could not be read (KeyError)", done.stderr)
        self.assertIn("some of JAX's arrays could not be read (AttributeError)", done.stderr)
        with open(os.path.join(self.folder, "end"), "w", encoding="utf-8"):
            pass
        process.communicate(timeout=60)
        notes = self.report()["notes"]
        for reason in ("PyTorch's cache could not be read (KeyError)",
                       "some of JAX's arrays could not be read (AttributeError)"):
            self.assertIn("what lives inside the caches is not completely known: " + reason, notes)

    @each_python
    def test_a_copy_that_fails_never_goes_on_with_the_program(self, python):
        """The last call of the copy's own code raises."""
        process = self.start(python, KEEP + "import ctypes, os, time\n"
                             "ask = ctypes.PyDLL(None).culprit_api_python_view\n"
                             "ask.restype = ctypes.py_object\nask()['leave'] = lambda text: 1 / 0\n"
                             "print('ready', flush=True)\nwhile not os.path.exists('end'):\n"
                             "    open(f'{os.getpid()}.pid', 'w').close(); time.sleep(0.01)\nprint('end')\n")
        self.assertEqual(process.stdout.readline(), "ready\n")
        command = [CULPRIT, "tensors", str(process.pid)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("could not be read", done.stderr)
        with open(os.path.join(self.folder, "end"), "w", encoding="utf-8"):
            pass
        self.assertEqual(process.communicate(timeout=60), ("end\n", ""))
        self.assertEqual([os.path.basename(path) for path in glob.glob(os.path.join(self.folder, "*.pid"))],
                         [f"{process.pid}.pid"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
