from __future__ import annotations

import gc
import itertools
import json
import os
import re
import tempfile
import warnings
from types import TracebackType
from typing import Any, Callable, TypeVar, Union

from culprit import _api, _caches, _library
from culprit._headline import headline, places_of

Size = Union[int, str]
_Result = TypeVar("_Result")
_Places = list[tuple[int, str]]
_numbers = itertools.count(1)


# Tracebacks show the public names of both exceptions.
class LeakError(AssertionError):
    """A block left GPU memory behind. str() is a line with size and place, and the text report. `leaked_bytes`,
    `leaked_allocations` and `report` (the JSON report as a dict; None without the culprit command) are for
    programs."""

    __module__ = "culprit"

    def __init__(self, text: str, leaked_bytes: int, leaked_allocations: int,
                 report: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.leaked_bytes = leaked_bytes
        self.leaked_allocations = leaked_allocations
        self.report = report
        self.kept: list[dict[str, Any]] = []  # live tensors inside caches

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception that comes out of a process of multiprocessing or concurrent.futures is pickled.
        arguments = (str(self), self.leaked_bytes, self.leaked_allocations, self.report)
        return type(self), arguments, self.__dict__


class NotKnownError(LeakError):
    """Not everything was recorded in a block, so it may have left GPU memory behind."""

    __module__ = "culprit"


def parse_bytes(size: Size) -> int:
    """The bytes of 4096, "4096", "64K", "1.5GiB" or "4MB". All units are powers of 1024, as in the culprit command."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:b|([kmgt])(?:b|ib)?)?\s*", str(size).lower())
    if match is None:
        raise ValueError(f"{size!r}: a size is needed, like 4096, 64K or 1.5GiB")
    return int(float(match[1]) * 1024 ** (" kmgt".index(match[2]) if match[2] else 0))


def run_report(command: str, snapshot: str, mark: str, form: str) -> str:
    """The report of the allocations since the mark."""
    environment = {key: value for key, value in os.environ.items() if key != "CULPRIT_SUPPRESSIONS"}
    suppressions = _library.setting("CULPRIT_SUPPRESSIONS")
    if suppressions:
        environment["CULPRIT_SUPPRESSIONS"] = suppressions
    arguments = [command, "report", snapshot, "--since-mark", mark, "--format", form,
                 *(["--all"] if form == "text" else [])]
    return _library.run_command(arguments, environment)


def text_report(command: str, snapshot: str, mark: str) -> str:
    text = run_report(command, snapshot, mark, "text")
    # The snapshot no longer exists when the text is read.
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("next "))


def _not_counted(group: dict[str, Any], prefix: str | None) -> tuple[int, int]:
    """Bytes and number of the leaked allocations of a group whose mark begins with `prefix`."""
    shares = [share for share in group.get("marks", [])
              if prefix and group["cause"] != "cached" and (share["mark"] or "").startswith(prefix)]
    return sum(share["bytes"] for share in shares), sum(share["count"] for share in shares)


def _attempt(function: Callable[..., _Result], otherwise: _Result, *arguments: Any) -> _Result:
    """The function's result; `otherwise` when a framework of an unknown version cannot be asked."""
    try:
        return function(*arguments)
    except Exception:  # pylint: disable=broad-except
        return otherwise


def _with_tensors(error: LeakError, tensors: list[_caches.Kept]) -> LeakError:
    error.kept = [dict(vars(tensor)) for tensor in tensors]
    return error


class Watch:
    """The allocations of all threads since the object was made, and the live memory inside the caches of PyTorch and
    CuPy. For check(), no_growth() and the pytest plugin."""

    def __init__(self, name: str) -> None:
        self.name = f"{name} #{next(_numbers)}"[-111:]
        self._since = _api.now()
        self._not_recorded = _api.not_recorded()
        self._was_off = _api.recording_is_off()
        self._blocks: dict[int, int] = _attempt(_caches.live_blocks, {})
        self._live = live_in_caches()
        _api.mark(self.name)

    def live(self) -> tuple[int, int]:
        """Bytes and number of the allocations since then that are not freed."""
        return _api.live_since(self._since)

    def kept(self, others: int = 0) -> int:
        """Bytes inside caches that are live now and were not when the object was made, without `others`."""
        return max(live_in_caches() - self._live - others, 0)

    def not_known(self) -> NotKnownError | None:
        """The error of a block that was not recorded completely."""
        missing = _api.not_recorded()
        if self._was_off or _api.recording_is_off():
            why = "recording was off (CULPRIT_START=signal, culprit.stop())"
        elif missing is None:
            why = "no dump could be made"
        elif missing != self._not_recorded:
            why = "not everything was recorded, see culprit's messages"
        else:
            return None
        return NotKnownError(f"it is not known whether GPU memory was left behind: {why}", 0, 0)

    def is_suspicious(self, allow: int, others: int = 0) -> bool:
        """Whether a look at what is left is needed. The garbage collector has not run for it."""
        return self.not_known() is not None or self.live()[0] + self.kept(others) > allow

    def tensors(self, kept: int) -> list[_caches.Kept]:
        """The tensors among `kept` bytes."""
        return _attempt(_caches.kept_since, [], self._blocks) if kept > 0 else []

    def leak(self, allow: int = 0, not_counted: str | None = None, others: int = 0) -> LeakError | None:
        """The LeakError of the block (a NotKnownError when not everything was recorded); None when the block leaves at
        most `allow` bytes behind. Idle memory of caching allocators, memory that libraries hold for themselves, that
        was allocated in a mark whose name begins with `not_counted`, and `others` bytes inside caches do not count."""
        unknown = self.not_known()
        if unknown is not None or not self.is_suspicious(allow, others):
            return unknown
        gc.collect()  # unreachable cycles may still hold memory
        live, count = self.live()
        kept = self.kept(others)
        if live + kept <= allow:
            return None
        tensors = self.tensors(kept)
        places: _Places = [(tensor.bytes, tensor.place()) for tensor in tensors]
        told = tell_tensors(kept, tensors)
        command = _library.command()
        if command is None:
            told += f"{live} bytes in {count} allocations were not freed; to see where: {_library.how_to_load()}\n"
            return _with_tensors(LeakError(f"{headline(live + kept, places)}\n\n{told}", live + kept, count), tensors)
        with tempfile.TemporaryDirectory(prefix="culprit-check-") as folder:
            snapshot = take_snapshot(folder)
            report = json.loads(run_report(command, snapshot, self.name, "json"))
            shares = [_not_counted(group, not_counted) for group in report["leaks"]]
            other_bytes, other_count = sum(share[0] for share in shares), sum(share[1] for share in shares)
            leaked = report["summary"]["leaked_bytes"] - other_bytes
            if leaked + kept <= allow:
                return None
            text = text_report(command, snapshot, self.name) if leaked > 0 else ""
        if other_count and not_counted:
            text += f"{other_bytes} bytes of these were made in {not_counted.strip(': ')} marks and are not counted\n"
        if leaked > 0:
            places += places_of(report, lambda group: group["bytes"] - _not_counted(group, not_counted)[0])
        error = LeakError(f"{headline(leaked + kept, places)}\n\n{told}{text}", leaked + kept,
                          report["summary"]["leaked_allocations"] - other_count, report)
        return _with_tensors(error, tensors)


def take_snapshot(folder: str) -> str:
    path = os.path.join(folder, "snapshot.dump")
    if _api.snapshot(path) is None:
        raise OSError("culprit has no record to copy")
    return path


def tell_tensors(kept: int, tensors: list[_caches.Kept]) -> str:
    lines = [f"LIVE IN CACHES {kept:,} bytes more than before", *["   " + tensor.text() for tensor in tensors[:5]]]
    return "".join(line + "\n" for line in lines) if kept > 0 else ""


def live_in_caches() -> int:
    """Bytes of live tensors inside the caches of PyTorch and CuPy."""
    return _attempt(_caches.live_bytes, 0)


def warn_not_loaded(stacklevel: int) -> None:
    warnings.warn(f"culprit is not loaded: nothing is checked. {_library.how_to_load()}", stacklevel=stacklevel + 1)


class check:
    """`with culprit.check():` raises LeakError when memory is left behind that any thread allocated during the block,
    tensors and arrays of PyTorch and CuPy included. `allow` is the size that may stay, as a number of bytes or a text
    like "4MB". A block that raises is not checked, because its traceback keeps its variables alive.

    The first `warmups` blocks of the same object are not checked:

        leaks = culprit.check(warmups=2)
        for batch in batches:
            with leaks:
                step(batch)"""

    def __init__(self, allow: Size = 0, warmups: int = 0) -> None:
        self._allow = parse_bytes(allow)
        self._warmups = int(warmups)
        self._watch: Watch | None = None

    def __enter__(self) -> check:
        self._watch = None
        if self._warmups > 0:
            self._warmups -= 1
        elif _api.loaded():
            gc.collect()
            self._watch = Watch("culprit.check")
        else:
            warn_not_loaded(stacklevel=2)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if kind is None and self._watch is not None:
            leak = self._watch.leak(self._allow)
            if leak is not None:
                raise leak
