import ctypes
import errno
import os

from culprit import _library


def loaded():
    """Whether libculprit.so is in this process."""
    return _library.library() is not None


def start():
    """Switches recording on."""
    library = _library.library()
    if library is not None:
        library.culprit_api_start()


def stop():
    """Switches recording off: nothing new is recorded, and frees of what was are followed."""
    library = _library.library()
    if library is not None:
        library.culprit_api_stop()


def snapshot(path, referrers=False):
    """Writes what is recorded, as it stands, to `path`, for culprit report. Returns the path; None where culprit is not
    loaded or has nothing yet (no CUDA call was made). An older dump is replaced; FileExistsError: another file is
    there. Raises OSError when it cannot be written.

    What PyTorch and CuPy say of their caches goes beside it (path + ".python.json"). referrers=True: with the names of
    what holds each of the largest live tensors; takes a second or so for each million Python objects."""
    library = _library.library()
    if library is None:
        return None
    error = library.culprit_api_snapshot(os.fsencode(path))
    if error == errno.ENODATA:
        return None
    if error != 0:
        raise OSError(error, os.strerror(error), os.fspath(path))
    from culprit import _view

    _view.write_beside(path, "snapshot", referrers)
    return path


class mark:
    """culprit.mark("name") names this moment; `with culprit.mark("name"):` opens a mark for the block, in this thread.

    Names are cut to 111 bytes. Marks close in the opposite order of their opening."""

    def __init__(self, name):
        self._name = str(name).encode("utf-8", "replace")
        library = _library.library()
        if library is not None:
            library.culprit_api_mark(self._name)

    def __enter__(self):
        self._opened = _library.library()
        if self._opened is not None:
            self._opened.culprit_api_mark_push(self._name)
        return self

    def __exit__(self, *_):
        if self._opened is not None:
            self._opened.culprit_api_mark_pop()


def live_bytes():
    """Bytes of GPU and pinned memory that were allocated and not freed, by any thread. 0 where culprit is not
    loaded."""
    return live_since(0)[0]


def live_since(time_ns):
    """Bytes and number of the allocations made since then (see now()) that were not freed."""
    library = _library.library()
    if library is None:
        return 0, 0
    count = ctypes.c_uint64()
    live = library.culprit_api_live_bytes(time_ns, ctypes.byref(count))
    return live, count.value


def now():
    """Nanoseconds since recording began; 0 where it did not."""
    library = _library.library()
    return 0 if library is None else library.culprit_api_now()
