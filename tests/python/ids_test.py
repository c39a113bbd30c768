#!/usr/bin/env python3
"""One leak has one id with every CPython of the machine, and below each runner of tests, on the simulated driver:
ids_test.py BUILD_FOLDER SOURCE_FOLDER

The interpreters are those of view_test.py.
"""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from view_test import CULPRIT, PYTHONS, environment

PROGRAM = """
import concurrent.futures
import contextlib
import ctypes
import os
import sys
import threading
import unittest

cudart = ctypes.CDLL("libcudart.so.13")


class Solver:
    pointer = ctypes.c_void_p()

    def step(self):
        [cudart.cudaMalloc(ctypes.byref(self.pointer), ctypes.c_size_t(4096)) for _ in range(1)]


@contextlib.contextmanager
def solver():
    yield Solver()


def main():
    with solver() as one:
        (lambda: one.step())()


class Test(unittest.TestCase):
    def test_main(self):
        main()


def how(name):
    if name == "plain":
        main()
    elif name == "thread":
        thread = threading.Thread(target=main)
        thread.start()
        thread.join()
    elif name == "pool":
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(main).result()
    elif name == "unittest":
        unittest.main(argv=["leaky"], exit=False)


if __name__ == "__main__":
    how(sys.argv[1])
"""


class Ids(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="culprit-ids-")
        self.addCleanup(shutil.rmtree, self.folder)
        with open(os.path.join(self.folder, "leaky.py"), "w", encoding="utf-8") as file:
            file.write(PROGRAM)

    def leak(self, python, *command, options=()):
        """The only leak of a program."""
        done = subprocess.run([CULPRIT, "run", "--format", "json", *options, "--", python, *command], cwd=self.folder,
                              env=environment(), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, check=False)
        leaks = json.loads(done.stderr[done.stderr.index("{\n"):])["leaks"]
        self.assertEqual(len(leaks), 1, done.stderr)
        return leaks[0]

    def test_each_way_has_one_id_with_every_python(self):
        ids = {}
        for version, python in sorted(PYTHONS.items()):
            for way in ("plain", "thread", "pool", "unittest"):
                for options in (), ("--full-stacks",):
                    leak = self.leak(python, "leaky.py", way, options=options)
                    ids.setdefault(way, {}).setdefault(leak["id"], []).append((version, options))
        print(f"ids with CPython {', '.join(PYTHONS)}: {ids}", flush=True)
        for way, found in ids.items():
            self.assertEqual(len(found), 1, (way, found))
        # In threads, the script's own frames are not below.
        self.assertEqual(ids["thread"].keys(), ids["pool"].keys())

    def test_names_are_python_s(self):
        for python in PYTHONS.values():
            done = subprocess.run([CULPRIT, "run", "--write-baseline", "base", "--format", "junit", "-o", "junit.xml",
                                   "--", python, "leaky.py", "plain"], cwd=self.folder, env=environment(),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
            with open(os.path.join(self.folder, "base"), encoding="utf-8") as file:
                where = json.load(file)["leaks"][0]["where"]
            self.assertRegex(where, r"^(Solver\.)?step in leaky\.py$", done.stderr)
            with open(os.path.join(self.folder, "junit.xml"), encoding="utf-8") as file:
                self.assertRegex(file.read(), r'name="cudaMalloc in (Solver\.)?step of leaky\.py \[')


if __name__ == "__main__":
    unittest.main(argv=["ids_test"], verbosity=2)
