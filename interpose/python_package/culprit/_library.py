"""Finds the libculprit.so in this process, and the culprit command of the same installation."""
from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import sys
import time
from typing import Any

API_VERSION = 2

_found: ctypes.CDLL | None = None
_looked: float | None = None  # time of the last search that found none


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    text: Any = ctypes.c_char_p
    number: Any = ctypes.c_uint64
    functions: list[tuple[str, Any, list[Any]]] = [
        ("start", None, []),
        ("stop", None, []),
        ("snapshot", ctypes.c_int, [text]),
        ("mark_push", None, [text]),
        ("mark_pop", None, []),
        ("mark", None, [text]),
        ("now", number, []),
        ("live_bytes", number, [number, ctypes.POINTER(number)]),
        ("not_recorded", number, []),
    ]
    for name, result, arguments in functions:
        function = getattr(library, "culprit_api_" + name)
        function.restype = result
        function.argtypes = arguments
    # Since 0.2.0 culprit_api_snapshot() also writes the view, which the package does itself.
    if hasattr(library, "culprit_api_snapshot_only"):
        only = library.culprit_api_snapshot_only
        only.argtypes = [text]
        setattr(library, "culprit_api_snapshot", only)  # noqa: B010
    if hasattr(library, "culprit_api_mark_with_bytes"):  # since version 3
        library.culprit_api_mark_with_bytes.restype = ctypes.c_int
        library.culprit_api_mark_with_bytes.argtypes = [text]
    if hasattr(library, "culprit_api_recording_is_off"):
        library.culprit_api_recording_is_off.restype = ctypes.c_int
        library.culprit_api_recording_is_off.argtypes = []
    return library


def library_path() -> str | None:
    """The path of the libculprit.so in this process; None: there is none."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                path = line.rstrip("\n").partition("/")[2]
                if path.endswith("/libculprit.so"):
                    return "/" + path
    except OSError:
        pass
    return None


def library() -> ctypes.CDLL | None:
    """The functions of the loaded library; None: no library is loaded, or it is older than this package."""
    global _found, _looked
    if _found is None and (_looked is None or time.monotonic() - _looked > 1):
        _looked = time.monotonic()
        # CDLL(None) finds symbols that the whole process sees. The symbols of an attached library are visible under the
        # library's own path only; CDLL(path) does not load the library a second time.
        for name in (None, library_path()):
            candidate = ctypes.CDLL(name)
            if hasattr(candidate, "culprit_api_version"):
                if candidate.culprit_api_version() >= API_VERSION:
                    _found = _declare(candidate)
                break
    return _found


# A test may clear the environment: mock.patch.dict(os.environ, clear=True).
_AT_IMPORT = {name: os.environ.get(name) for name in ("CULPRIT_COMMAND", "CULPRIT_LIBRARY", "CULPRIT_SUPPRESSIONS")}


def setting(name: str) -> str | None:
    """The value of a variable of the package's, or without one its value when the package was imported."""
    return os.environ.get(name) or _AT_IMPORT[name]


def _command_of_this_wheel() -> str | None:
    """The culprit command inside this package; None: this package does not come from the wheel that has it."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native", "bin", "culprit")
    return path if os.access(path, os.X_OK) else None


def command() -> str | None:
    """The path of the culprit command: from CULPRIT_COMMAND, beside the library, of the same wheel, or from PATH;
    None: not found."""
    chosen = setting("CULPRIT_COMMAND")
    if chosen:
        return chosen
    path = library_path()
    if path:
        beside = os.path.join(os.path.dirname(os.path.dirname(path)), "bin", "culprit")
        if os.access(beside, os.X_OK):
            return beside
    return _command_of_this_wheel() or shutil.which("culprit")


def run_command(arguments: list[str], environment: dict[str, str]) -> str:
    """The output of the culprit command, whose path is the first argument. The command itself does not run under
    culprit. Raises OSError when it fails."""
    without = {key: value for key, value in environment.items() if key != "LD_PRELOAD"}
    done = subprocess.run(arguments, env=without, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0 or not output:
        raise OSError(f"{arguments[0]} ended with {done.returncode}: {done.stderr.decode('utf-8', 'replace')}")
    return output


def _name_of(command_path: str) -> str:
    """The name by which a user calls the command."""
    beside = os.path.join(sys.prefix, "bin", "culprit")
    if shutil.which("culprit"):
        return "culprit"
    return beside if os.access(beside, os.X_OK) else command_path


def _this_program() -> str:
    arguments = getattr(sys, "orig_argv", None)
    text = shlex.join(arguments) if arguments else ""
    return text if text and "\n" not in text and len(text) <= 200 else "python ..."


def how_to_load() -> str:
    """The command after which the library is in the process, as the end of a message."""
    chosen = setting("CULPRIT_LIBRARY")
    if chosen and not os.path.exists(chosen):
        return f"CULPRIT_LIBRARY names no file ({chosen}). Run: unset CULPRIT_LIBRARY"
    found = command()
    if found is None:
        return "The command culprit is not installed. Run: pip install culprit_gpu-*.whl"
    if library_beside(found) is None:
        return f"{found} has no libculprit.so in its tree. Run: pip install --force-reinstall culprit_gpu-*.whl"
    return f"Run: {_name_of(found)} run -- {_this_program()}"


def library_beside(command_path: str) -> str | None:
    """The libculprit.so in the tree of a culprit command; None: there is none."""
    chosen = setting("CULPRIT_LIBRARY")
    if chosen:
        return chosen
    root = os.path.dirname(os.path.dirname(os.path.realpath(command_path)))
    for folder in ("lib", "lib64", os.path.join("lib", os.uname().machine + "-linux-gnu")):
        path = os.path.join(root, folder, "libculprit.so")
        if os.path.exists(path):
            return path
    return None
