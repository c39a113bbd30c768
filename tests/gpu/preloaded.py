"""Parts that the checks on a GPU share: run a command under libculprit.so, read its report, print one row of the table.

A check is a script that prints rows "PASS|FAIL|SKIP<tab>name<tab>detail" and exits 0, or 1 when a row failed.
CULPRIT_TREE names the tree with bin/culprit and lib/libculprit.so: an unpacked package, which has these scripts too,
or a build tree.
"""
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import reports  # noqa: E402

TREE = Path(os.environ.get("CULPRIT_TREE", ROOT))
# The Python package: a package of the tests has a copy, a build tree has none.
PACKAGE = TREE / "python_package" if (TREE / "python_package").is_dir() else ROOT / "interpose" / "python_package"
CULPRIT = TREE / "bin" / "culprit"
LIBRARY = TREE / "lib" / "libculprit.so"
PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
failed = False


def row(outcome, name, detail=""):
    """Prints one row of the table; a multi-line detail is squeezed into one line."""
    global failed
    failed = failed or outcome == FAIL
    print(f"{outcome}\t{name}\t{' '.join(str(detail).split())}", flush=True)


def finish():
    sys.exit(1 if failed else 0)


def compiled(program):
    """The path of a compiled program of this folder: beside the scripts in a package, in gpu/ of a build tree."""
    beside = HERE / program
    return beside if beside.exists() else TREE / "gpu" / program


def installed(package):
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package that it lies in
        return False


class Run:
    """One finished process: exit code, output, and the report of the one process that left a dump (None without
    one)."""

    def __init__(self, returncode, stdout, stderr, reports):
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr
        self.reports = reports

    @property
    def report(self):
        if len(self.reports) != 1:
            raise RuntimeError(f"{len(self.reports)} dumps, expected one; exit code {self.returncode}: "
                               f"{self.stderr[-500:]}")
        return self.reports[0]


def run(command, preload=True, report_options=(), timeout=300, **environment):
    """Runs a command, under the library unless preload is False, and reads every dump that it left."""
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as folder:
        variables = dict(os.environ, **environment)
        if preload:
            variables.update(LD_PRELOAD=str(LIBRARY), CULPRIT_OUT=f"{folder}/%n.%p.dump", CULPRIT_QUIET="1")
        result = subprocess.run([str(word) for word in command], env=variables, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=timeout)
        found = [read_report(dump, report_options) for dump in sorted(Path(folder).iterdir())
                 if dump.suffix != ".json"]
        return Run(result.returncode, result.stdout, result.stderr, found)


def read_report(dump, options=()):
    return reports.read_report(CULPRIT, dump, *options)


def groups(report):
    """Every group of memory that was not freed, also those that a library made for itself."""
    return report["leaks"] + report.get("library", [])


def passes_through(group, module):
    """True when a frame of the group's stack lies in a module whose file name begins so."""
    return any(os.path.basename(frame.get("module") or "").startswith(module) for frame in group["stack"])
