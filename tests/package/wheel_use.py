"""The wheel as a user of Python meets it: installed, used by `culprit run` and `pytest --culprit`, uninstalled."""
import pathlib
import subprocess
import sys

TRAIN = """import ctypes
cudart = ctypes.CDLL("libcudart.so.13")
def step(size):
    memory = ctypes.c_void_p()
    assert cudart.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(size)) == 0
step(11001)
"""
TESTS = """import train
def test_leaves_memory_behind():
    train.step(22002)
def test_leaves_nothing():
    pass
"""


def python_with_venv():
    """A Python that has ensurepip; one that has pytest, too, where there is one. None: there is none."""
    able = [python for python in (sys.executable, "/usr/bin/python3") if imports(python, "venv, ensurepip")]
    return next((python for python in able if imports(python, "pytest")), next(iter(able), None))


def imports(python, modules):
    return subprocess.run([python, "-c", f"import {modules}"], capture_output=True, check=False).returncode == 0


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*"))


class Environment:
    """A virtual environment in a folder, where PATH has no culprit: everything is found from its own files."""

    def __init__(self, python, folder, output_of):
        self.folder, self.output_of = folder, output_of
        self.root = folder / "venv"
        output_of(python, "-m", "venv", "--system-site-packages", str(self.root))
        (folder / "train.py").write_text(TRAIN, encoding="utf-8")
        (folder / "test_train.py").write_text(TESTS, encoding="utf-8")

    def pip(self, *arguments):
        self.output_of(self.program("python"), "-m", "pip", "--disable-pip-version-check", *arguments)

    def program(self, name):
        return str(self.root / "bin" / name)

    def run(self, *command):
        simulator = next(self.root.glob("lib/python3*/site-packages/culprit/_native/lib/culprit/demo/driver"))
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8", "DEBUGINFOD_URLS": "",
                       "LD_LIBRARY_PATH": str(simulator)}
        return subprocess.run(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)


def check(test, python, wheel, folder, output_of):
    """`output_of(command...)` runs a command and returns its output; it raises AssertionError when it fails."""
    venv = Environment(python, folder, output_of)
    before = files_below(venv.root)
    venv.pip("install", "--no-index", "--no-deps", str(wheel))
    done = venv.run(venv.program("culprit"), "run", "--", venv.program("python"), "train.py")
    test.assertEqual(done.returncode, 0, done.stdout)
    for part in ("LEAKED 10.7 KiB in 1 allocation", "train.py:5", "train.py:6"):
        test.assertIn(part, done.stdout)
    venv.pip("uninstall", "--yes", "culprit-gpu")
    test.assertEqual(files_below(venv.root), before)

    if not imports(venv.program("python"), "pytest"):
        print("no pytest here: pytest --culprit is not tested", file=sys.stderr)
        return
    venv.pip("install", "--no-index", "--no-deps", str(wheel))
    done = venv.run(venv.program("python"), "-m", "pytest", "--culprit", "-p", "no:cacheprovider")
    test.assertEqual(done.returncode, 1, done.stdout)
    test.assertIn("1 failed, 1 passed", done.stdout)
    test.assertIn("\nleaked 21.5 KiB at train.py:5 step\n", done.stdout)
    test.assertIn("FAILED test_train.py::test_leaves_memory_behind - leaked 21.5 KiB at train.py", done.stdout)
    venv.pip("uninstall", "--yes", "culprit-gpu")
    test.assertEqual(files_below(venv.root), before)
