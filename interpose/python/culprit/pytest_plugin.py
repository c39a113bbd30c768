"""pytest --culprit: a test that leaves GPU memory behind fails, with a report of that memory.

    @pytest.mark.culprit(allow="4MB")   # up to 4 MiB may stay
    @pytest.mark.culprit(check=False)   # this test is not checked

Allocations in the setup of fixtures with a wider scope than the test do not count. A test that fails for another reason
is not checked, because its traceback keeps its variables alive.
"""
import os
import shutil
import sys
import tempfile

import pytest
from _pytest.runner import runtestprotocol

from culprit import _api, _check, _library

_AGAIN = "CULPRIT_PYTEST_AGAIN"
FIXTURE = "fixture: "  # prefix of the mark that is open during the setup of a fixture with a wider scope


def pytest_addoption(parser):
    group = parser.getgroup("culprit", "GPU memory that tests leave behind")
    group.addoption("--culprit", action="store_true", help="fail tests that leave GPU memory behind")
    group.addoption("--culprit-allow", metavar="SIZE", default="0",
                    help="size that each test may leave behind, like 4MB")


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config, args):
    # At this moment pytest has not captured its output yet, and no code has called CUDA.
    if early_config.known_args_namespace.culprit and not _api.loaded():
        _start_again_under_culprit(early_config)
    yield


def _start_again_under_culprit(config):
    command = _library.command()
    library = _library.library_beside(command) if command else None
    by_command = os.path.basename(sys.argv[0]) in ("pytest", "py.test", "__main__.py")
    if library is None or not by_command or os.environ.get(_AGAIN):
        raise pytest.UsageError("--culprit: libculprit.so is not loaded. "
                                "Run: culprit run -- python -m pytest --culprit ...")
    folder = tempfile.mkdtemp(prefix="culprit-pytest-")
    preload = os.environ.get("LD_PRELOAD")
    environment = dict(os.environ)
    environment.update({_AGAIN: folder, "LD_PRELOAD": f"{library}:{preload}" if preload else library,
                        "CULPRIT_QUIET": "1"})
    environment.setdefault("CULPRIT_OUT", os.path.join(folder, "culprit.%n.%p.dump"))
    if not any(os.environ.get(name) for name in ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH")):
        environment["NVTX_INJECTION64_PATH"] = library
    original = getattr(sys, "orig_argv", None)
    arguments = original[1:] if original else ["-m", "pytest", *config.invocation_params.args]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *arguments], environment)


def pytest_configure(config):
    config.addinivalue_line("markers",
                            'culprit(allow="4MB", check=True): size of the GPU memory that the test may leave behind')
    if config.getoption("--culprit"):
        try:
            allow = _check.parse_bytes(config.getoption("--culprit-allow"))
        except ValueError as error:
            raise pytest.UsageError(f"--culprit-allow {error}") from None
        config.pluginmanager.register(LeakPlugin(allow), "culprit-leaks")


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


class LeakPlugin:
    def __init__(self, allow):
        self._allow = allow

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        # The reports wait until the test's own fixtures are torn down, so that a leak is a failure of the test.
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        watch = _check.Watch(item.nodeid)
        with _api.mark("test: " + item.nodeid):
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        marker = item.get_closest_marker("culprit")
        settings = marker.kwargs if marker is not None else {}
        if settings.get("check", True) and all(report.passed for report in reports):
            allow = _check.parse_bytes(settings["allow"]) if "allow" in settings else self._allow
            leak = watch.leak(allow, not_counted=FIXTURE)
            call = next((report for report in reports if report.when == "call"), None)
            if leak is not None and call is not None:
                call.outcome = "failed"
                call.longrepr = _without_pytest(str(leak))
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope == "function":
            yield
            return
        with _api.mark(FIXTURE + fixturedef.argname):
            yield

    def pytest_unconfigure(self, config):
        folder = os.environ.get(_AGAIN)
        if folder and not hasattr(config, "workerinput"):  # workers of pytest-xdist share it
            shutil.rmtree(folder, ignore_errors=True)
