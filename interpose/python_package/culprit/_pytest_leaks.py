"""Runs and checks the tests of a pytest run with --culprit.

A leak is known when the test's own fixtures have ended; then it becomes a failure of the test's call, so that xfail
marks, reruns and all who count tests see one failed test. Fixtures with a wider scope end after the check: they may
free more than the test left behind. Therefore

- the teardown of pytest is done in two steps with the check between them (SetupState.teardown_exact, which every
  runner of tests calls: pytest's own, pytest-rerunfailures, pytest-forked, flaky),
- the report of a call that passed is given to pytest after the teardown. Other plugins that run a test again do that
  themselves; where one has given it away before, the leak is an error of the teardown.

PYTEST_DONT_REWRITE
"""
from __future__ import annotations

import gc
import unittest
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Callable, NoReturn

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback
from _pytest.outcomes import TEST_OUTCOME
from _pytest.runner import CallInfo, runtestprotocol

from culprit import _api, _check, _growth
from culprit._headline import calls_a_test

FIXTURE = "fixture: "  # prefix of the mark that is open during the setup of a fixture with a wider scope
# The plugins whose hook may see the report of a leak. Those of the program have seen the call's report: on a failure
# they may use fixtures that have ended.
_JUDGES = ("runner", "skipping", "rerunfailures", "pytest_rerunfailures")


def _is_wrapper(implementation: Any) -> bool:
    return bool(implementation.hookwrapper or getattr(implementation, "wrapper", False))


def without_runners(text: str) -> str:
    """The report without the frames of pytest and of unittest: the frame that calls the test, and those below it."""
    kept, skipping = [], False
    for line in text.splitlines(keepends=True):
        # "   allocated  file.py:3  function" begins a stack; each further frame is a line without the first word.
        skipping = skipping and line.startswith(" " * 4)
        if calls_a_test(line.rstrip("\n").rpartition(" ")[2]):
            skipping = True
        if not skipping:
            kept.append(line)
    return "".join(kept)


def _failure(text: str, location: tuple[str, int | None, str]) -> ReprExceptionInfo:
    """A failure for pytest to show. Its summary, JUnit's message and --tb=line have the first line; the workers of
    pytest-xdist can send it."""
    path, line, _ = location
    crash = ReprFileLocation(path, (line or 0) + 1, text.partition("\n")[0])
    return ReprExceptionInfo(ReprTraceback([ReprEntryNative([text])], None, "native"), crash)


class _Sibling:
    """Stands for a next test beside `item`: the fixtures of the test end, those with a wider scope stay."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def listchain(self) -> list[Any]:
        return self._item.listchain()[:-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._item, name)


# The names that a marker takes: type, least value, what is needed in words.
_MARKER: dict[str, tuple[type | None, int, str]] = {
    "allow": (None, 0, ""), "check": (bool, 0, "True or False"), "warmups": (int, 0, "a number from 0 on"),
    "repeat": (int, 1, "a number from 1 on")}


def _chosen_by(item: pytest.Item) -> dict[str, Any]:
    """The values of the test's marker. A misspelt one would leave a test unchecked that is thought to be checked."""
    marker = item.get_closest_marker("culprit")
    if marker is None:
        return {}
    if marker.args:
        _refuse(item, f"{marker.args[0]!r} has no name; there are: {', '.join(_MARKER)}")
    chosen: dict[str, Any] = dict(marker.kwargs)
    for name, value in chosen.items():
        if name not in _MARKER:
            _refuse(item, f"there is no {name}; there are: {', '.join(_MARKER)}")
        kind, least, needed = _MARKER[name]
        number: Any = value  # mypy knows less of a value whose type was compared
        if kind is not None and (type(value) is not kind or number < least):
            _refuse(item, f"{name}={value!r}: {needed} is needed")
    if "allow" in chosen:
        try:
            _check.parse_bytes(chosen["allow"])
        except ValueError as error:
            _refuse(item, f"allow={error}")
    return chosen


def _refuse(item: pytest.Item, why: str) -> NoReturn:
    raise pytest.UsageError(f"{item.nodeid}: pytest.mark.culprit: {why}")


class _Settings:
    def __init__(self, item: pytest.Item, allow: int, warmups: int, repeat: int) -> None:
        self.item = item
        chosen = _chosen_by(item)
        # A function with culprit.no_growth is checked by that.
        own_check = getattr(getattr(item, "obj", None), "__culprit_no_growth__", False)
        self.check = chosen.get("check", not own_check)
        self.allow = _check.parse_bytes(chosen["allow"]) if "allow" in chosen else allow
        self.warmups = chosen.get("warmups", warmups)
        self.repeat = chosen.get("repeat", repeat)


class _Run:
    """One run of a test, from its setup to its teardown."""

    def __init__(self, item: pytest.Item) -> None:
        self.item = item
        self.mark = _api.mark("test: " + item.nodeid)
        self.mark.__enter__()
        self.watch: _check.Watch | None = None
        self.others = 0  # bytes inside caches that fixtures with a wider scope made
        self.calling = False
        self.call: Any = None  # the report of the call
        self.passed = False
        self.expected_to_fail = False  # by unittest.expectedFailure
        self.case: Callable[[], Any] = lambda: None  # the test's TestCase of unittest, while it is alive
        self.logged = False  # whether others have that report
        self.leak: _check.LeakError | None = None



def _is_expected_to_fail(item: pytest.Item) -> bool:
    """Whether it is a test with unittest.expectedFailure, or a class with that."""
    function = getattr(item, "obj", None)
    return any(getattr(thing, "__unittest_expecting_failure__", False)
               for thing in (function, getattr(item.parent, "obj", None)))


def _has_passed(item: pytest.Item, report: Any) -> bool:
    """Whether it is passed, or failed only because it passed and was expected to fail."""
    if report.when != "call" or not report.failed:
        return bool(report.passed)
    text = str(report.longrepr) if isinstance(report.longrepr, str) or _is_expected_to_fail(item) else ""
    return text.startswith(("[XPASS(strict)]", "Unexpected success"))


def _drop_variables(traceback: TracebackType | None) -> None:
    """Drops the variables of the functions that have ended, in the traceback and above it."""
    frames = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    for frame in reversed(frames):
        above: Any = frame
        while above is not None:
            try:
                above.clear()
            except RuntimeError:  # it is running
                break
            _ = above.f_locals  # until Python 3.12 a copy that this brings up to date
            above = above.f_back


class LeakPlugin:
    def __init__(self, session: pytest.Session, allow: int, warmups: int, repeat: int) -> None:
        self._allow = allow
        self._warmups = warmups
        self._repeat = repeat
        self._settings: _Settings | None = None
        self._run: _Run | None = None
        self._growth: _growth.Growth | None = None  # of a test that is repeated
        self._quiet = False  # a run before the one that is reported
        self._logs = False  # whether this plugin gives the reports away, instead of another runner of tests
        self._settled = 0  # bytes inside caches when no garbage was among them
        self._runners: dict[tuple[int, ...], Any] = {}
        self._judging: Any = None
        for item in getattr(session, "items", ()):  # not in the process that hands them out to pytest-xdist's workers
            _chosen_by(item)
        state: Any = session._setupstate
        self._teardown_exact: Callable[..., None] = state.teardown_exact
        state.teardown_exact = self._teardown

    # The order of a test's run.

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        settings = self._settings_of(item)
        self._growth = None
        if settings.check and self._runs_before(item, settings):
            return True
        others = self._other_runners(item)
        if others is not None and others(item=item, nextitem=nextitem) is not None:
            return True
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._logs = True
        try:
            runtestprotocol(item, log=False, nextitem=nextitem)
        finally:
            self._logs = False
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _runs_before(self, item: pytest.Item, settings: _Settings) -> bool:
        """The runs before the one that pytest counts; true when one of the repetitions fails, which is the result."""
        self._quiet = True
        try:
            for _ in range(settings.warmups):
                runtestprotocol(item, log=False, nextitem=_Sibling(item))  # type: ignore[arg-type]
            if settings.repeat <= 1:
                return False
            self._growth = _growth.Growth(item.nodeid)
            for _ in range(settings.repeat - 1):
                reports = runtestprotocol(item, log=False, nextitem=_Sibling(item))  # type: ignore[arg-type]
                if not all(_has_passed(item, report) for report in reports):
                    if not any(report.failed for report in reports):
                        break  # skipped, or failed as expected
                    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
                    for report in reports:
                        item.ihook.pytest_runtest_logreport(report=report)
                    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
                    return True
        finally:
            self._quiet = False
        return False

    def _other_runners(self, item: pytest.Item) -> Any:
        """The hooks of other plugins that run tests, like pytest-rerunfailures; None: there are none."""
        here = [known.plugin for known in item.ihook.pytest_runtest_protocol.get_hookimpls()
                if not _is_wrapper(known) and known.plugin is not self and known.plugin_name != "runner"]
        if not here:
            return None
        key = tuple(map(id, here))
        if key not in self._runners:
            manager = item.config.pluginmanager
            rest = [known.plugin for known in item.config.hook.pytest_runtest_protocol.get_hookimpls()
                    if not any(known.plugin is plugin for plugin in here)]
            self._runners[key] = manager.subset_hook_caller("pytest_runtest_protocol", rest)
        return self._runners[key]

    # The phases of a run.

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        watched = self._growth is None and not self._quiet and self._settings_of(item).check
        if watched:
            self._collect_earlier_garbage()
        self._run = _Run(item)
        if self._growth is not None:
            self._growth.begin_repetition()
        elif watched:
            self._run.watch = _check.Watch(item.nodeid)
        yield

    def _settings_of(self, item: pytest.Item) -> _Settings:
        if self._settings is None or self._settings.item is not item:
            self._settings = _Settings(item, self._allow, self._warmups, self._repeat)
        return self._settings

    def _collect_earlier_garbage(self) -> None:
        """Garbage of earlier tests that is freed during this one would hide as much of a leak. A test that was not
        checked, or failed, may have left such garbage; the others are known to have left none."""
        live = _check.live_in_caches()
        if live > self._settled:
            gc.collect()
            live = _check.live_in_caches()
        self._settled = live

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        run = self._run
        if run is not None:
            run.calling = True
        yield
        if run is not None:
            run.calling = False

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        if fixturedef.scope == "function" or self._run is None:
            yield
            return
        before = _check.live_in_caches()
        with _api.mark(FIXTURE + fixturedef.argname):
            yield
        self._run.others += _check.live_in_caches() - before

    def _teardown(self, *arguments: Any) -> None:
        """In the place of SetupState.teardown_exact(nextitem), which had the item before it until pytest 7."""
        run, errors = self._run, []
        if run is None or not run.passed or (run.watch is None and self._growth is None):
            self._teardown_exact(*arguments)
            return
        try:
            self._teardown_exact(*arguments[:-1], _Sibling(run.item))
            self._judge(run)
        except TEST_OUTCOME as error:
            errors.append(error)
        try:
            self._teardown_exact(*arguments)
        except TEST_OUTCOME as error:
            errors.append(error)
        if errors:
            raise errors[0]

    def _judge(self, run: _Run) -> None:
        allow = self._settings_of(run.item).allow
        if self._growth is not None:
            self._growth.end_repetition(lambda: self._release(run))
            if not self._quiet:
                run.leak = self._growth.leak(allow)
        elif run.watch is not None and run.watch.is_suspicious(allow, run.others):
            self._release(run)
            run.leak = run.watch.leak(allow, not_counted=FIXTURE, others=run.others)
        self._settled = min(self._settled, _check.live_in_caches()) if run.leak is None else _check.live_in_caches()

    @staticmethod
    def _release(run: _Run) -> None:
        """Drops the values of fixtures, which have ended. pytest does so after the teardown. Until version 8.2 it keeps
        the first TestCase of a class as long as the class."""
        item: Any = run.item
        if getattr(item, "funcargs", None):
            item.funcargs = dict.fromkeys(item.funcargs)
        case = run.case()
        if case is not None:
            kind = next(kind for kind in type(case).__mro__ if kind.__module__.startswith("unittest"))
            for name in set(vars(case)) - set(vars(kind())):
                del case.__dict__[name]

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Iterator[None]:
        outcome: Any = yield
        run = self._run
        # During the call there are reports of its parts (subtests), which their makers give away.
        if run is None or run.item is not item or run.calling or outcome.excinfo is not None:
            return
        report = outcome.get_result()
        if call.when == "call" and run.call is None:
            run.call = report
            run.passed = _has_passed(item, report)
            run.expected_to_fail = _is_expected_to_fail(item)
            case = getattr(getattr(item, "obj", None), "__self__", None)
            if isinstance(case, unittest.TestCase):
                run.case = weakref.ref(case)
            if run.passed and call.excinfo is not None:
                _drop_variables(call.excinfo.tb)  # other plugins may keep it
            if self._logs and run.passed:
                return  # it is given away after the teardown
        if call.when == "teardown":
            run.mark.__exit__()
            self._run = None
            if run.leak is not None:
                self._fail(run, report)
            if self._logs and run.call is not None and not run.logged:
                item.ihook.pytest_runtest_logreport(report=run.call)
        if self._logs:
            item.ihook.pytest_runtest_logreport(report=report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if self._run is not None and report is self._run.call:
            self._run.logged = True

    def _fail(self, run: _Run, teardown: Any) -> None:
        """Makes the leak a failure of the test."""
        leak = run.leak
        assert leak is not None
        if run.logged:
            if teardown.passed:
                teardown.outcome = "failed"
                teardown.longrepr = _failure(without_runners(str(leak)), run.item.location)
            return

        def fail() -> None:
            raise leak

        told = self._judges(run.item)(item=run.item, call=CallInfo.from_call(fail, when="call"))
        if run.call.failed and not hasattr(told, "wasxfail") and run.expected_to_fail:
            told.outcome, told.wasxfail = "skipped", ""
        run.call.outcome = told.outcome
        run.call.longrepr = _failure(without_runners(str(leak)), run.item.location)
        run.call.__dict__.pop("wasxfail", None)
        if hasattr(told, "wasxfail"):
            run.call.wasxfail = told.wasxfail

    def _judges(self, item: pytest.Item) -> Any:
        """The hooks that make a report of a leak."""
        if self._judging is None:
            others = [known.plugin for known in item.config.hook.pytest_runtest_makereport.get_hookimpls()
                      if known.plugin_name not in _JUDGES]
            self._judging = item.config.pluginmanager.subset_hook_caller("pytest_runtest_makereport", others)
        return self._judging
