"""Which variables keep the live tensors and arrays: culprit.tensors()."""
from __future__ import annotations

import ctypes
import html
import json
import os
import sysconfig
import tempfile
from collections.abc import Iterator
from typing import Any

from culprit import _library, _view
from culprit._headline import size_text

_SHOWN = 20


class Keeper:
    """A variable of the program, or something without a variable, that keeps `bytes` of a framework's cache alive.

    `kind` is "variable", "autograd", "gradients", ... as in `culprit tensors --format json`; `path` names the variable;
    `count` is the number of blocks of memory; `hint` says what to write instead, or is empty; `id` is the same in each
    run; `pool` names the cache; `grown` is the growth since the earlier moment, if there was one."""

    __module__ = "culprit"

    def __init__(self, pool: str, row: dict[str, Any]) -> None:
        self.pool = pool
        self.kind: str = row["kind"]
        self.path: str = row["path"]
        self.bytes: int = row["bytes"]
        self.count: int = row["count"]
        self.hint: str = row["hint"] or ""
        self.id: str = row["id"]
        self.grown: int = row.get("grown_bytes", 0)
        self.addresses: list[int] = row.get("addresses", [])

    def __repr__(self) -> str:
        return f"<culprit.Keeper {size_text(self.bytes)} {self.kind} {self.path}>"


class Tensors:
    """The keepers of all caches, the largest first: a sequence of Keeper. str() is a table, which a notebook shows as
    HTML. `live_bytes` is the sum that the frameworks report. `why` says why nothing is known, or is empty."""

    __module__ = "culprit"

    def __init__(self, report: dict[str, Any], since: bool, why: str = "") -> None:
        self.why = why
        self._report = report
        self._since = since
        caches = report["dumps"][0]["caches"] if report.get("dumps") else []
        self.live_bytes: int = sum(cache["live_bytes"] for cache in caches)
        rows = [Keeper(cache["pool"], row) for cache in caches for row in cache["grown" if since else "kept"]]
        self._keepers = sorted(rows, key=lambda keeper: -(keeper.grown if since else keeper.bytes))

    def __iter__(self) -> Iterator[Keeper]:
        return iter(self._keepers)

    def __len__(self) -> int:
        return len(self._keepers)

    def __getitem__(self, place: int) -> Keeper:
        return self._keepers[place]

    def _size(self, keeper: Keeper) -> str:
        if not self._since:
            return size_text(keeper.bytes)
        return ("-" if keeper.grown < 0 else "+") + size_text(abs(keeper.grown))

    def _title(self) -> str:
        if self.why:
            return self.why
        live = f"{size_text(self.live_bytes)} of tensors and arrays live"
        if not self._since:
            return live
        return f"{live}; what grew, by keeper:" if self._keepers else f"{live}; no keeper grew"

    def __str__(self) -> str:
        lines = [self._title()]
        for keeper in self._keepers[:_SHOWN]:
            lines.append(f"   {self._size(keeper):>10}  {keeper.kind:<12}  {keeper.path}")
            if keeper.hint and keeper.hint not in (line.strip()[9:] for line in lines[-2:-1]):
                lines.append(f"      instead  {keeper.hint}")
        if len(self._keepers) > _SHOWN:
            lines.append(f"   and {len(self._keepers) - _SHOWN} more")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{self._size(keeper)}</td><td>{html.escape(keeper.kind)}</td>"
                       f"<td>{html.escape(keeper.path)}</td><td>{html.escape(keeper.hint)}</td></tr>"
                       for keeper in self._keepers[:_SHOWN])
        head = "".join(f"<th>{title}</th>" for title in ("memory", "kind", "kept by", "instead"))
        return f"<p>{html.escape(self._title())}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def natives() -> Any:
    """The library's functions that read the heap; None: they cannot be in this interpreter."""
    library = _library.library()
    if library is None or not hasattr(library, "culprit_api_python_view"):
        return None
    ask = ctypes.PyDLL(None, handle=library._handle).culprit_api_python_view
    ask.restype = ctypes.py_object
    ask.argtypes = []
    try:
        scope = ask()
    except ValueError:  # no interpreter was found
        return None
    if scope is None:
        return None
    # An older library lacks the last four.
    return (scope["heap_edges"], scope["heap_objects"], scope["words"], scope.get("pointers", int),
            scope.get("memory_sizes", lambda addresses: bytes(len(addresses))), scope.get("exported", lambda name: 0),
            scope.get("native_holders", lambda objects, blocks: None))


def read_keepers(view: dict[str, Any], since: Tensors | None = None, addresses: bool = False) -> dict[str, Any]:
    """The report of `culprit tensors` about a view of _view.collect(). Raises OSError when the command is not there."""
    command = _library.command()
    if command is None:
        raise OSError(_library.how_to_load())
    with tempfile.TemporaryDirectory(prefix="culprit-tensors-") as folder:
        dump = os.path.join(folder, "snapshot.dump")
        with open(dump + _view.SUFFIX, "wb") as file:
            file.write(_view.text(view))
        arguments = [command, "tensors", dump, "--format", "json"]
        if since is not None:
            earlier = os.path.join(folder, "since.json")
            with open(earlier, "w", encoding="utf-8") as text:
                json.dump(since._report, text)
            arguments += ["--since", earlier]
        if addresses:
            arguments.append("--addresses")
        report: dict[str, Any] = json.loads(_library.run_command(arguments, dict(os.environ)))
        return report


def _why_not_read() -> str:
    """Why libculprit.so does not look into this interpreter."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python is free-threaded, and culprit reads the objects of a Python with a GIL"
    return "no CUDA call was made yet, or the Python interpreter hides its functions"


def tensors(since: Tensors | None = None) -> Tensors:
    """The variables that keep the live tensors and arrays, in the caches of frameworks and outside, by the graph of
    Python's objects and autograd's graphs. With `since`, an earlier result, what grew by keeper: the rows are those
    that differ. No code of the program runs, and no tensor is kept by it. The whole heap is searched with the GIL held:
    about a second for a million objects. Without libculprit.so there are no keepers, and `why` says why."""
    if _library.library() is None:
        return Tensors({}, since is not None, f"culprit is not loaded: nothing is known. {_library.how_to_load()}")
    functions = natives()
    if functions is None:
        return Tensors({}, since is not None, "nothing is known: " + _why_not_read())
    view = _view.collect("snapshot", False, functions)
    if view is None:
        return Tensors({}, since is not None, "no tensor or array is live")
    return Tensors(read_keepers(view, since), since is not None)
