#!/usr/bin/env python3
"""The packages on an old distribution, as root in its root folder: in_root.py TARBALL DEB WHEEL"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import wheel_use

TARBALL, DEB, WHEEL = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
# Folders of a system's own records, and of this test.
OF_THE_SYSTEM = ("/proc", "/sys", "/dev", "/tmp", "/var/lib/dpkg", "/var/log", "/var/cache", "/root")


def output_of(*command):
    run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         timeout=300, check=False)
    if run.returncode != 0:
        raise AssertionError(f"{command}: {run.returncode}\n{run.stdout}")
    return run.stdout


def all_files():
    found = set()
    for folder, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if not os.path.join(folder, name).startswith(OF_THE_SYSTEM)
                      and name != "__pycache__"]
        found.update(os.path.join(folder, name) for name in folders + files)
    return found


class InRoot(unittest.TestCase):
    def check_demo(self, culprit, demo):
        report = output_of(str(culprit), "run", "--", str(demo / "out_of_memory_exception"))
        for part in ("LEAKED 256 MiB in 4 allocations, 1 group", "out_of_memory_exception.cpp:36  solve_step",
                     'std::runtime_error "the residual is NaN", 4 times', "Simulated GPU 0"):
            self.assertIn(part, report)

    def test_tarball_runs_in_any_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            output_of("tar", "-C", folder, "-xzf", str(TARBALL))
            tree = next(pathlib.Path(folder).iterdir())
            self.check_demo(tree / "bin/culprit", tree / "lib/culprit/demo")
            self.assertIn("usage:", output_of(str(tree / "bin/culprit-nightly"), "--help"))

    def test_deb_installs_and_leaves_nothing(self):
        before = all_files()
        # No apt, which would need a network: dpkg says when something that is needed is missing.
        output_of("dpkg", "--install", str(DEB))
        self.assertIn("/usr/bin/culprit", all_files() - before)
        self.check_demo("culprit", pathlib.Path("/usr/lib/culprit/demo"))
        output_of("dpkg", "--purge", "culprit")
        self.assertEqual(all_files() ^ before, set())

    def test_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            wheel_use.check(self, sys.executable, WHEEL, pathlib.Path(folder), output_of)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
