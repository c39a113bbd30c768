"""The first line of a LeakError: how much, and the line of the program that allocated most of it."""

from __future__ import annotations

from typing import Any, Callable

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_CALLERS = ("pytest_pyfunc_call", "call_fixture_func", "_callTestMethod", "_callSetUp", "_callTearDown", "_callCleanup",
            "_callMaybeAsync", "_callAsync")
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python3")


def size_text(size: int) -> str:
    """As in the text report: three digits and a unit of 1024."""
    if size < 1024:
        return f"{size} B"
    value, unit = size / 1024, 0
    while value >= 1023.5 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {_UNITS[unit]}"


def place_text(file: str, line: int, function: str) -> str:
    """ " at train.py:31 step" """
    if file:
        return f" at {file.rpartition('/')[2]}:{line} {function}".rstrip()
    return f" in {function}" if function else ""


def calls_a_test(function: str) -> bool:
    """Whether a function is of pytest or of unittest, and calls a test or a fixture. Its callers are of them, too."""
    return function.rpartition(".")[2] in _CALLERS


def frame_of(stack: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The innermost Python frame of the program, else of a package, else the innermost frame with a line."""
    python = [frame for frame in stack if frame["language"] == "python"]
    own = [frame for frame in python if not any(part in frame["file"] for part in _INSTALLED)]
    with_line = [frame for frame in stack if frame["file"]]
    return next(iter(own or python or with_line or stack), None)


def places_of(report: dict[str, Any], bytes_of: Callable[[dict[str, Any]], int]) -> list[tuple[int, str]]:
    """[(bytes, place)] of the leaked groups of a JSON report; `bytes_of(group)` says how many of a group's count."""
    places: dict[str, int] = {}
    for group in report["leaks"]:
        size = bytes_of(group) if group["cause"] != "cached" else 0
        if size > 0:
            frame = frame_of(group["stack"])
            place = place_text(frame["file"], frame["line"], frame["function"]) if frame else ""
            places[place] = places.get(place, 0) + size
    return [(size, place) for place, size in places.items()]


def headline(size: int, places: list[tuple[int, str]]) -> str:
    """`places`: (bytes, text) of each place."""
    _, largest = max(places, key=lambda place: place[0], default=(0, ""))
    others = len(places) - 1
    more = f" and {others} other place{'s' if others != 1 else ''}" if others > 0 else ""
    return f"leaked {size_text(size)}{largest}{more}"
