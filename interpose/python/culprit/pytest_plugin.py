"""pytest --culprit: a test that leaves GPU memory behind fails, with a report of that memory. Tensors and arrays of
PyTorch and CuPy that a test keeps are such memory, too.

    @pytest.mark.culprit(allow="4MB")   # up to 4 MiB may stay
    @pytest.mark.culprit(warmups=2)     # the test runs twice before, to fill caches of the program and of libraries
    @pytest.mark.culprit(check=False)   # this test is not checked

Allocations in the setup of fixtures with a wider scope than the test do not count. A test that fails for another reason
is not checked, because its traceback keeps its variables alive.

PYTEST_DONT_REWRITE: nothing here is asserted, and pytest would warn where the package is imported already.
"""
import contextlib
import gc
import os
import sys

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback
from _pytest.outcomes import Exit
from _pytest.reports import TestReport
from _pytest.runner import CallInfo, runtestprotocol

from culprit import _api, _check, _library

_AGAIN = "CULPRIT_PYTEST_AGAIN"
FIXTURE = "fixture: "  # prefix of the mark that is open during the setup of a fixture with a wider scope


def pytest_addoption(parser):
    group = parser.getgroup("culprit", "GPU memory that tests leave behind")
    group.addoption("--culprit", action="store_true", help="fail tests that leave GPU memory behind")
    group.addoption("--culprit-allow", metavar="SIZE", default="0",
                    help="size that each test may leave behind, like 4MB")
    group.addoption("--culprit-warmups", metavar="N", default=0, type=int,
                    help="run each test N times before the run that is checked")


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config, args):
    # At this moment pytest has not captured its output yet, and no code has called CUDA.
    if early_config.known_args_namespace.culprit and not _api.loaded():
        _start_again_under_culprit(early_config)
    yield


def _start_again_under_culprit(config):
    preload = os.environ.get("LD_PRELOAD")
    if os.environ.get(_AGAIN):
        raise pytest.UsageError(f"--culprit: {sys.executable} does not load what LD_PRELOAD names ({preload}): it is "
                                "static, of another libc, or privileged. Run with another Python: "
                                "culprit run -- python3 -m pytest --culprit")
    command = _library.command()
    library = _library.library_beside(command) if command else None
    by_command = os.path.basename(sys.argv[0]) in ("pytest", "py.test", "__main__.py")
    if library is None or not os.path.exists(library) or not by_command:
        raise pytest.UsageError(f"--culprit: libculprit.so is not loaded. {_library.how_to_load()}")
    environment = dict(os.environ)
    environment.update({_AGAIN: "1", "LD_PRELOAD": f"{library}:{preload}" if preload else library,
                        "CULPRIT_QUIET": "1"})
    environment.setdefault("CULPRIT_OUT", os.devnull)  # snapshots are taken, and no dump is left behind
    if not any(os.environ.get(name) for name in ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH")):
        environment["NVTX_INJECTION64_PATH"] = library
    original = getattr(sys, "orig_argv", None)
    arguments = original[1:] if original else ["-m", "pytest", *config.invocation_params.args]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *arguments], environment)


def pytest_configure(config):
    config.addinivalue_line("markers",
                            'culprit(allow="4MB", check=True, warmups=0): size of the GPU memory that the test may '
                            "leave behind; runs before the one that is checked")
    if config.getoption("--culprit"):
        try:
            allow = _check.parse_bytes(config.getoption("--culprit-allow"))
        except ValueError as error:
            raise pytest.UsageError(f"--culprit-allow {error}") from None
        config.pluginmanager.register(LeakPlugin(allow, config.getoption("--culprit-warmups")), "culprit-leaks")


def pytest_unconfigure():
    # pytest keeps its own compiled copies of a plugin's code. pip does not know them, and would leave them behind.
    folder = os.path.join(os.path.dirname(__file__), "__pycache__")
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if "-pytest-" in name:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))


def _without_pytest(text):
    """The report without pytest's frames: those below the frame that calls the test."""
    kept, skipping = [], False
    for line in text.splitlines(keepends=True):
        # "   allocated  file.py:3  function" begins a stack; each further frame is a line without the first word.
        skipping = skipping and line.startswith(" " * 4)
        if "pytest_pyfunc_call" in line:
            skipping = True
        if not skipping:
            kept.append(line)
    return "".join(kept)


def _failure(text, location):
    """A failure for pytest to show. Its summary, JUnit's message and --tb=line have the first line; the workers of
    pytest-xdist can send it."""
    path, line, _ = location
    crash = ReprFileLocation(path, (line or 0) + 1, text.partition("\n")[0])
    return ReprExceptionInfo(ReprTraceback([ReprEntryNative([text])], None, "native"), crash)


class _Sibling:
    """Stands for a next test beside `item`: the fixtures of the test end, those with a wider scope stay."""

    def __init__(self, item):
        self._item = item

    def listchain(self):
        return self._item.listchain()[:-1]

    def __getattr__(self, name):
        return getattr(self._item, name)


def _end_wider_fixtures(item, nextitem):
    capture = item.config.pluginmanager.getplugin("capturemanager")
    with capture.item_capture("teardown", item) if capture is not None else contextlib.nullcontext():
        # Not by the hook: pytest's own plugins expect one call of it for each test.
        return CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown",
                                  reraise=(Exit, KeyboardInterrupt))


class LeakPlugin:
    def __init__(self, allow, warmups):
        self._allow = allow
        self._warmups = warmups
        self._others = 0  # bytes inside caches that fixtures with a wider scope made

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        # The reports wait until the test's own fixtures are torn down, so that a leak is a failure of the test.
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        marker = item.get_closest_marker("culprit")
        settings = marker.kwargs if marker is not None else {}
        checked = settings.get("check", True)
        for _ in range(int(settings.get("warmups", self._warmups)) if checked else 0):
            runtestprotocol(item, log=False, nextitem=_Sibling(item))
        if checked:
            gc.collect()  # garbage of earlier tests that is freed now would hide as much of a leak
        watch = _check.Watch(item.nodeid)
        self._others = 0
        with _api.mark("test: " + item.nodeid):
            reports = runtestprotocol(item, log=False, nextitem=_Sibling(item))
        if checked and all(report.passed for report in reports):
            allow = _check.parse_bytes(settings["allow"]) if "allow" in settings else self._allow
            leak = watch.leak(allow, not_counted=FIXTURE, others=self._others)
            call = next((report for report in reports if report.when == "call"), None)
            if leak is not None and call is not None:
                call.outcome = "failed"
                call.longrepr = _failure(_without_pytest(str(leak)), item.location)
        # Fixtures with a wider scope end after the check: they may free more than the test left behind.
        end = _end_wider_fixtures(item, nextitem)
        if end.excinfo is not None:
            reports.append(TestReport.from_item_and_call(item, end))
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope == "function":
            yield
            return
        before = _check.live_in_caches()
        with _api.mark(FIXTURE + fixturedef.argname):
            yield
        self._others += _check.live_in_caches() - before
