from __future__ import annotations

import ctypes
import errno
import os
from types import TracebackType
from typing import TypeVar, Union

from culprit import _library

_Path = TypeVar("_Path", bound=Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"])


def loaded() -> bool:
    """Whether libculprit.so is in this process."""
    return _library.library() is not None


def start() -> None:
    """Switches recording on."""
    library = _library.library()
    if library is not None:
        library.culprit_api_start()


def stop() -> None:
    """Switches recording off: only frees of recorded allocations are recorded."""
    library = _library.library()
    if library is not None:
        library.culprit_api_stop()


def snapshot(path: _Path, referrers: bool = False) -> _Path | None:
    """Writes a copy of the dump to `path`, for culprit report. Returns the path, or None when culprit is not loaded or
    no CUDA call was made. Replaces an older dump. Raises FileExistsError when `path` is another file, OSError when the
    copy cannot be written.

    The file `path` + ".python.json" gets the state of PyTorch's and CuPy's caches. With referrers=True it has the names
    of the variables that hold the largest live tensors, which takes about a second for each million Python objects."""
    library = _library.library()
    if library is None:
        return None
    error = library.culprit_api_snapshot(os.fsencode(path))
    if error == errno.ENODATA:
        return None
    if error != 0:
        raise OSError(error, os.strerror(error), os.fsdecode(path))
    _write_view(path, referrers)
    return path


def _write_view(dump: str | bytes | os.PathLike[str] | os.PathLike[bytes], referrers: bool) -> None:
    """Writes the view beside the snapshot `dump`, or removes that of an older snapshot."""
    from culprit import _view

    view = _view.collect("snapshot", referrers)
    path = os.fsdecode(dump) + _view.SUFFIX
    if view is None:
        if os.path.exists(path):
            os.unlink(path)
        return
    part = f"{path}.{os.getpid()}.part"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(_view.text(view))
    os.replace(part, path)


class mark:
    """culprit.mark("name") names this moment; `with culprit.mark("name"):` opens a mark for the block, in this thread.

    Names are cut to 111 bytes. Marks must be closed in the opposite order of their opening.

    With snapshot=True the dump keeps what is live at this moment, bytes and allocations by stack, for `culprit diff
    DUMP --from NAME --to NAME`. A dump keeps this for the newest 16 moments. Raises OSError when it could not be kept.
    A libculprit.so that is older than this package names the moment only."""

    def __init__(self, name: object, snapshot: bool = False) -> None:
        self._name = str(name).encode("utf-8", "replace")
        self._opened: ctypes.CDLL | None = None
        library = _library.library()
        if library is None:
            return
        if not snapshot or not hasattr(library, "culprit_api_mark_with_bytes"):
            library.culprit_api_mark(self._name)
            return
        error = library.culprit_api_mark_with_bytes(self._name)
        if error != 0:
            raise OSError(error, "the live memory at a mark was not kept: " + os.strerror(error))

    def __enter__(self) -> mark:
        self._opened = _library.library()
        if self._opened is not None:
            self._opened.culprit_api_mark_push(self._name)
        return self

    def __exit__(self, kind: type[BaseException] | None = None, error: BaseException | None = None,
                 traceback: TracebackType | None = None) -> None:
        if self._opened is not None:
            self._opened.culprit_api_mark_pop()


def live_bytes() -> int:
    """Bytes of GPU and pinned memory that any thread allocated and that are not freed; 0 without libculprit.so."""
    return live_since(0)[0]


def live_since(time_ns: int) -> tuple[int, int]:
    """Bytes and number of the allocations made at the time `time_ns` (see now()) or later that are not freed."""
    library = _library.library()
    if library is None:
        return 0, 0
    count = ctypes.c_uint64()
    live = int(library.culprit_api_live_bytes(time_ns, ctypes.byref(count)))
    return live, count.value


def now() -> int:
    """Nanoseconds since recording began; 0: recording has not begun."""
    library = _library.library()
    return 0 if library is None else int(library.culprit_api_now())


def recording_is_off() -> bool:
    """Whether recording was switched off (CULPRIT_START=signal, stop()): new allocations are not seen."""
    library = _library.library()
    # A libculprit.so of version 0.2.0 does not tell.
    if library is None or not hasattr(library, "culprit_api_recording_is_off"):
        return False
    return bool(library.culprit_api_recording_is_off())


def not_recorded() -> int | None:
    """How many events could not be recorded so far (a full disk, ...); None: no dump could be made."""
    library = _library.library()
    events = 0 if library is None else int(library.culprit_api_not_recorded())
    return None if events == 2 ** 64 - 1 else events
