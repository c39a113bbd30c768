"""pytest --culprit: a test that leaves GPU memory behind fails, with a report of that memory. Tensors and arrays of
PyTorch and CuPy that a test keeps are such memory, too.

    @pytest.mark.culprit(allow="4MB")   # up to 4 MiB may stay
    @pytest.mark.culprit(warmups=2)     # the test runs twice before, to fill caches of the program and of libraries
    @pytest.mark.culprit(repeat=5)      # the test runs five times: memory that grows with them is a leak
    @pytest.mark.culprit(check=False)   # this test is not checked

Allocations in the setup of fixtures with a wider scope than the test do not count. A test that fails for another reason
is not checked, because its traceback keeps its variables alive.

This module has the options, and starts pytest again with the library. _pytest_leaks.py runs and checks the tests.
PYTEST_DONT_REWRITE: nothing here is asserted, and pytest would warn where the package is imported already.
"""
from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence

import pytest

from culprit import _api, _check, _library

_AGAIN = "CULPRIT_PYTEST_AGAIN"
_LINK = "CULPRIT_PYTEST_LINK"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("culprit", "GPU memory that tests leave behind")
    group.addoption("--culprit", action="store_true", help="fail tests that leave GPU memory behind")
    group.addoption("--culprit-allow", metavar="SIZE", default="0",
                    help="size that each test may leave behind, like 4MB")
    group.addoption("--culprit-warmups", metavar="N", default=0, type=int,
                    help="run each test N times before the run that is checked")
    group.addoption("--culprit-repeat", metavar="N", default=1, type=int,
                    help="run each test N times: only memory that grows with the repetitions is a leak")


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    # At this moment pytest has not captured its output yet, and no code has called CUDA.
    if early_config.known_args_namespace.culprit and not _api.loaded():
        _start_again_under_culprit(early_config.invocation_params.args)
    yield


def _preloadable(library: str) -> tuple[str, str]:
    """A path of the library that LD_PRELOAD can hold, and the folder to remove afterwards."""
    if " " not in library and ":" not in library:
        return library, ""
    folder = tempfile.mkdtemp(prefix="culprit-library-", dir=None if " " not in tempfile.gettempdir() else "/tmp")
    link = os.path.join(folder, "libculprit.so")
    os.symlink(library, link)
    return link, folder


def _is_command() -> bool:
    """Whether this process is a pytest command, which can be started again, instead of a program that calls pytest."""
    return os.path.basename(sys.argv[0]) in ("pytest", "py.test", "__main__.py")


def _start_again_under_culprit(arguments: Sequence[str]) -> None:
    """Does not return. `arguments` are those of pytest."""
    preload = os.environ.get("LD_PRELOAD")
    if os.environ.get(_AGAIN):
        raise pytest.UsageError(f"--culprit: {sys.executable} does not load what LD_PRELOAD names ({preload}): it is "
                                "static, of another libc, or privileged. Run with another Python: "
                                "culprit run -- python3 -m pytest --culprit")
    command = _library.command()
    library = _library.library_beside(command) if command else None
    if library is None or not os.path.exists(library) or not _is_command():
        raise pytest.UsageError(f"--culprit: libculprit.so is not loaded. {_library.how_to_load()}")
    library, folder = _preloadable(library)
    environment = dict(os.environ)
    environment.update({_AGAIN: str(os.getpid()), "LD_PRELOAD": f"{library}:{preload}" if preload else library,
                        "CULPRIT_QUIET": "1"})
    if folder:
        environment[_LINK] = folder
    environment.setdefault("CULPRIT_OUT", os.devnull)  # snapshots are taken, and no dump is left behind
    if not any(os.environ.get(name) for name in ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH")):
        environment["NVTX_INJECTION64_PATH"] = library
    original = getattr(sys, "orig_argv", None)
    words = original[1:] if original else ["-m", "pytest", *arguments]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *words], environment)


def _positive(config: pytest.Config, option: str, least: int) -> int:
    number = int(config.getoption(option))
    if number < least:
        raise pytest.UsageError(f"{option} {number}: a number from {least} on is needed")
    return number


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers",
                            'culprit(allow="4MB", check=True, warmups=0, repeat=1): size of the GPU memory that the '
                            "test may leave behind; runs before those that are checked; runs that are compared")
    if config.getoption("--culprit"):
        try:
            allow = _check.parse_bytes(config.getoption("--culprit-allow"))
        except ValueError as error:
            raise pytest.UsageError(f"--culprit-allow {error}") from None
        config.pluginmanager.register(_Start(allow, _positive(config, "--culprit-warmups", 0),
                                             _positive(config, "--culprit-repeat", 1)), "culprit-start")


class _Start:
    """Registers the plugin that checks tests when all conftest.py files are known: so its hooks are around theirs."""

    def __init__(self, allow: int, warmups: int, repeat: int) -> None:
        self._settings = allow, warmups, repeat

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        from culprit._pytest_leaks import LeakPlugin  # imports much of pytest, which only --culprit needs

        session.config.pluginmanager.register(LeakPlugin(session, *self._settings), "culprit-leaks")


def pytest_unconfigure() -> None:
    # Workers of pytest-xdist, and processes that tests start, have the variables too.
    if os.environ.get(_LINK) and os.environ.get(_AGAIN) == str(os.getpid()):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(os.environ[_LINK], "libculprit.so"))
            os.rmdir(os.environ[_LINK])
    # pytest keeps its own compiled copies of a plugin's code. pip does not know them, and would leave them behind.
    folder = os.path.join(os.path.dirname(__file__), "__pycache__")
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if "-pytest-" in name:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))


# The sooner the less is done twice. What is left to hooks: --culprit in addopts or shortened, and all error messages.
if "--culprit" in sys.argv[1:] and _is_command() and not os.environ.get(_AGAIN) and not _api.loaded():
    with contextlib.suppress(pytest.UsageError):
        _start_again_under_culprit(sys.argv[1:])
