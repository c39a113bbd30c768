"""Memory that grows when something is repeated: a leak grows with the repetitions, a cache comes once."""
from __future__ import annotations

import functools
import gc
import inspect
import itertools
import json
import re
import tempfile
from typing import Any, Callable, TypeVar, overload

from culprit import _api, _check, _library
from culprit._headline import calls_a_test, headline, places_of, size_text

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MOST_REPORTS = 10


def _key(group: dict[str, Any]) -> tuple[Any, ...]:
    """Equal for the allocations of all repetitions of one place: pytest calls the last one from another line."""
    frames = itertools.takewhile(lambda frame: not calls_a_test(frame["function"]), group["stack"])
    return (group["api"], group["device"], *((frame["function"], frame["file"], frame["line"], frame["module"],
                                              frame["offset"]) for frame in frames))


def _sums(report: dict[str, Any]) -> dict[tuple[Any, ...], int]:
    found: dict[tuple[Any, ...], int] = {}
    for group in report["leaks"]:
        if group["cause"] != "cached":
            found[_key(group)] = found.get(_key(group), 0) + group["bytes"]
    return found


def _with_groups(text: str, ids: set[str]) -> str:
    """The text report with these groups only."""
    kept, skipping = [], False
    for line in text.splitlines(keepends=True):
        first = re.match(r"\d+  .* ([0-9a-f]{16})$", line)
        if first:
            skipping = first[1] not in ids
        if not skipping:
            kept.append(line)
        elif line == "\n":  # ends the group
            skipping = False
    return "".join(kept)


class Growth:
    """The memory in use after each repetition, without garbage of the interpreter."""

    def __init__(self, name: str) -> None:
        self._watch = _check.Watch(name)
        self._moments: list[str] = []
        self._levels = [0]

    def begin_repetition(self) -> None:
        self._moments.append(f"{self._watch.name}, repetition {len(self._levels)}"[-111:])
        _api.mark(self._moments[-1])

    def end_repetition(self, release: Callable[[], None] = lambda: None) -> None:
        """`release` drops objects of the repetition that the caller would drop later."""
        level = self._level()
        if level > self._levels[-1]:
            release()
            gc.collect()
            level = self._level()
        self._levels.append(level)

    def _level(self) -> int:
        return self._watch.live()[0] + self._watch.kept()

    def leak(self, allow: int = 0) -> _check.LeakError | None:
        """The error, when the memory grew in two repetitions or more and still did in their second half. Where it did
        not grow in all of them, a place must have left memory behind in two: several caches are no leak."""
        unknown = self._watch.not_known()
        if unknown is not None:
            return unknown
        count = len(self._levels) - 1
        rises = [number for number in range(1, count + 1) if self._levels[number] > self._levels[number - 1]]
        if self._levels[-1] <= allow or len(rises) < 2 or rises[-1] <= (count + 1) // 2:
            return None
        kept = self._watch.kept()
        tensors = self._watch.tensors(kept)
        places = [(tensor.bytes, tensor.place()) for tensor in tensors]
        levels = ", ".join(size_text(level) for level in self._levels[1:])
        told = f"in use after each repetition: {levels}\n" + _check.tell_tensors(kept, tensors)
        live, allocations = self._watch.live()
        command = _library.command()
        report = None
        if command is None:
            told += f"to see where: {_library.how_to_load()}\n"
        elif live > 0:
            with tempfile.TemporaryDirectory(prefix="culprit-check-") as folder:
                snapshot = _check.take_snapshot(folder)
                report, growing = self._growing(command, snapshot)
                if not growing and len(rises) == count:  # from a different place each time
                    growing = [group for group in report["leaks"] if group["cause"] != "cached"]
                text = _check.text_report(command, snapshot, self._moments[0]) if growing else ""
            live = sum(group["bytes"] for group in growing)
            allocations = sum(group["count"] for group in growing)
            if live + kept <= allow:
                return None
            once = report["summary"]["leaked_bytes"] - live
            told += _with_groups(text, {group["id"] for group in growing})
            told += f"{size_text(once)} of these came once and are not counted\n" if once > 0 else ""
            places += places_of({"leaks": growing}, lambda group: group["bytes"])
        first = headline(live + kept, places).replace("leaked", "grew by", 1)
        first = re.sub(r"^(grew by \S+ \S+)", rf"\1 in {count} repetitions", first)
        return _check.LeakError(f"{first}\n\n{told}", live + kept, allocations, report)

    def _growing(self, command: str, snapshot: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The report since the first repetition, and its groups that were left behind in two repetitions or more."""
        step = -(-len(self._moments) // _MOST_REPORTS)
        reports = [json.loads(_check.run_report(command, snapshot, moment, "json")) for moment in self._moments[::step]]
        since = [*map(_sums, reports), {}]
        times = {key: sum(earlier.get(key, 0) > later.get(key, 0) for earlier, later in zip(since, since[1:]))
                 for key in since[0]}
        return reports[0], [group for group in reports[0]["leaks"] if times.get(_key(group), 0) >= 2]


@overload
def no_growth(function: _Function) -> _Function: ...


@overload
def no_growth(*, repeat: int = ..., warmup: int = ...,
              allow: _check.Size = ...) -> Callable[[_Function], _Function]: ...


def no_growth(function: Callable[..., Any] | None = None, *, repeat: int = 5, warmup: int = 2,
              allow: _check.Size = 0) -> Any:
    """`@culprit.no_growth(repeat=5, warmup=2)`: each call of the function, a test for example, becomes `warmup` calls
    and then `repeat` calls, and raises LeakError when GPU memory grows with these: memory that came once is a cache.
    `allow` is the size by which it may grow in all. The result is that of the last call. A call that raises ends the
    repetitions. Without libculprit.so the function is called once."""
    if function is None:
        options = {"repeat": repeat, "warmup": warmup, "allow": allow}
        return functools.partial(no_growth, **options)
    if repeat < 2 or warmup < 0:
        raise ValueError("no_growth: repeat is 2 or more, warmup 0 or more")
    most = _check.parse_bytes(allow)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"no_growth: {function.__qualname__} is a generator, which no call runs")
    name = f"no_growth {getattr(function, '__qualname__', 'function')}"

    if inspect.iscoroutinefunction(function):
        @functools.wraps(function)
        async def repeated_later(*arguments: Any, **named: Any) -> Any:
            if not _api.loaded():
                _check.warn_not_loaded(stacklevel=2)
                return await function(*arguments, **named)
            for _ in range(warmup):
                await function(*arguments, **named)
            growth = Growth(name)
            for _ in range(repeat):
                result = None
                growth.begin_repetition()
                result = await function(*arguments, **named)
                growth.end_repetition()
            _raise(growth.leak(most))
            return result

        repeated_later.__culprit_no_growth__ = True  # type: ignore[attr-defined]
        return repeated_later

    @functools.wraps(function)
    def repeated(*arguments: Any, **named: Any) -> Any:
        if not _api.loaded():
            _check.warn_not_loaded(stacklevel=2)
            return function(*arguments, **named)
        for _ in range(warmup):
            function(*arguments, **named)
        growth = Growth(name)
        for _ in range(repeat):
            result = None
            growth.begin_repetition()
            result = function(*arguments, **named)
            growth.end_repetition()
        _raise(growth.leak(most))
        return result

    repeated.__culprit_no_growth__ = True  # type: ignore[attr-defined]
    return repeated


def _raise(error: _check.LeakError | None) -> None:
    if error is not None:
        raise error
