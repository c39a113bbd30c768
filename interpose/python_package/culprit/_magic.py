"""%load_ext culprit gives IPython and Jupyter two magics. %%culprit runs the cell, and shows the GPU memory that the
cell left behind as a table; `%%culprit --allow 4MB`: only when it is more than that. %culprit shows the variables that
keep the live tensors; `%culprit --since`: what grew since the last %culprit."""
from __future__ import annotations

import argparse
import gc
import html
import importlib
import re
import shlex
from typing import Any

from culprit import _api, _check, _library, _tensors
from culprit._headline import frame_of, size_text

_TITLES = ("memory", "count", "made by", "line", "function", "line of the cell")
_NUMBERS = 2  # the first columns


def _cell_of(file: str, shell: Any) -> str | None:
    """ "cell 3": the name of a file of IPython's that holds a cell; None for any other file."""
    number = getattr(shell.compile, "_filename_map", {}).get(file)
    if number is None:
        match = re.match(r"<ipython-input-(\d+)-", file)
        number = match[1] if match else None
    return None if number is None else f"cell {number}"


class LeakTable:
    """The memory that a cell left behind, largest first."""

    def __init__(self, error: _check.LeakError, shell: Any, own: set[str]) -> None:
        """`own`: the names that the cell has as a file."""
        self.error = error
        self._shell = shell
        self._own = own
        rows: list[tuple[int, tuple[str, ...]]] = []
        for group in (error.report or {"leaks": []})["leaks"]:
            if group["cause"] != "cached":
                rows.append((group["bytes"], self._row_of(group)))
        for kept in error.kept:
            where = self._place(kept["file"], kept["line"]) if kept["file"] else ""
            made_by = "a tensor" + (f", held by {kept['holder']}" if kept["holder"] else "")
            cell = where if kept["file"] and _cell_of(kept["file"], shell) else ""
            rows.append((kept["bytes"], (size_text(kept["bytes"]), str(kept["count"]), made_by, where,
                                         kept["function"], cell)))
        self.rows = [row for _, row in sorted(rows, key=lambda pair: -pair[0])]

    def _place(self, file: str, line: int) -> str:
        if file in self._own:
            return f"this cell:{line + 1}"  # the first line is that of the magic
        return f"{_cell_of(file, self._shell) or file.rpartition('/')[2]}:{line}"

    def _row_of(self, group: dict[str, Any]) -> tuple[str, ...]:
        frame = frame_of(group["stack"]) or {"file": "", "line": 0, "function": ""}
        cells = [one for one in group["stack"] if one["file"] and _cell_of(one["file"], self._shell)]
        return (size_text(group["bytes"]), str(group["count"]), group["api"],
                self._place(frame["file"], frame["line"]) if frame["file"] else "", frame["function"],
                self._place(cells[0]["file"], cells[0]["line"]) if cells else "")

    def _summary(self) -> str:
        first = str(self.error).partition("\n")[0]
        return first if not self.rows else f"left behind: {size_text(self.error.leaked_bytes)}"

    def __repr__(self) -> str:
        if not self.rows:
            return str(self.error)
        table = [_TITLES, *self.rows]
        widths = [max(len(row[column]) for row in table) for column in range(len(_TITLES))]
        lines = ["  ".join(cell.rjust(width) if column < _NUMBERS else cell.ljust(width)
                           for column, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in table]
        return "\n".join([self._summary(), *lines])

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<pre>{html.escape(str(self.error))}</pre>"
        head = "".join(f"<th>{title}</th>" for title in _TITLES)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        return (f"<p>{html.escape(self._summary())}</p>"
                f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def _options(line: str) -> int:
    parser = argparse.ArgumentParser(prog="%%culprit", add_help=False, allow_abbrev=False)
    parser.add_argument("--allow", default="0")
    try:
        return _check.parse_bytes(parser.parse_args(shlex.split(line)).allow)
    except SystemExit:
        raise ValueError("%%culprit has one option: --allow SIZE, like 4MB") from None


class _Keepers:
    """%culprit"""

    def __init__(self) -> None:
        self._last: _tensors.Tensors | None = None

    def take(self, line: str) -> _tensors.Tensors:
        parser = argparse.ArgumentParser(prog="%culprit", add_help=False, allow_abbrev=False)
        parser.add_argument("--since", action="store_true")
        try:
            since = self._last if parser.parse_args(shlex.split(line)).since else None
        except SystemExit:
            raise ValueError("%culprit has one option: --since, which shows what grew since the last one") from None
        found = _tensors.tensors(since)
        if not found.why:
            self._last = found
        return found


def load(shell: Any) -> None:
    display = importlib.import_module("IPython.display").display
    keepers = _Keepers()

    def culprit(line: str, cell: str | None = None) -> None:
        """%culprit [--since] shows the variables that keep the live tensors, or what grew since the last %culprit.
        %%culprit [--allow SIZE] runs the cell and shows the GPU memory that it left behind."""
        if cell is None:
            display(keepers.take(line))
            return
        allow = _options(line)
        if not _api.loaded():
            print(f"culprit is not loaded: nothing is checked. {_library.how_to_load()}")
            shell.run_cell(cell)
            return
        gc.collect()
        watch = _check.Watch("cell")
        before = set(getattr(shell.compile, "_filename_map", {}))
        own = {shell.compile.get_code_name(cell, shell.transform_cell(cell), shell.execution_count)}
        result = shell.run_cell(cell)
        own |= set(getattr(shell.compile, "_filename_map", {})) - before
        if not result.success:
            print("culprit: the cell failed, and its traceback keeps its variables: its memory is not checked")
            return
        error = watch.leak(allow)
        if error is not None:
            display(LeakTable(error, shell, own))
        else:
            print("culprit: no GPU memory was left behind" if allow == 0 else
                  f"culprit: at most {size_text(allow)} of GPU memory was left behind")

    shell.register_magic_function(culprit, magic_kind="line_cell", magic_name="culprit")
