"""Runs when an interpreter starts under culprit (culprit.pth): what has to be in place before the program's own code.

- at the interpreter's end the view from inside the frameworks is written beside the dump (see _view.py);
- with CULPRIT_TORCH_HISTORY=1 (culprit run --torch-history) PyTorch records the Python line of each block, as soon as
  the program has imported PyTorch and initialized CUDA itself;
- threads tell culprit their names.

It is a guest: nothing is imported for the program, nothing is printed, no error leaves it.
"""
import atexit
import os
import sys


def dump_path():
    """Where this process's dump is, None as long as there is none (no CUDA call was made)."""
    import ctypes  # not at start-up: most programs never need it

    buffer = ctypes.create_string_buffer(4096)
    try:
        asked = ctypes.CDLL(None).culprit_api_dump_path
    except AttributeError:
        return None
    return os.fsdecode(buffer.value) if asked(buffer, ctypes.c_size_t(len(buffer))) == 0 else None


def _at_exit():
    try:
        if "torch" not in sys.modules and "cupy" not in sys.modules:
            return
        from culprit import _view

        dump = dump_path()
        if dump is not None:
            _view.write_beside(dump, "exit", _view.MOST_OBJECTS_AT_EXIT)
    except Exception:  # pylint: disable=broad-except
        pass


def _record_history(torch):
    def begin():
        try:
            torch.cuda.memory._record_memory_history(  # pylint: disable=protected-access
                enabled="state", context="state", stacks="python")
        except Exception:  # pylint: disable=broad-except
            pass

    # Now, or when the program initializes CUDA: doing it here would take GPU memory and forbid forking.
    torch.cuda._lazy_call(begin)  # pylint: disable=protected-access


def _name_threads(threading):
    """Each thread tells its name before it runs. The wrapped method is called and left before Thread.run, so no
    traceback shows it."""
    import ctypes

    try:
        tell = ctypes.CDLL(None).culprit_api_thread_name
    except AttributeError:
        return
    tell.restype = None
    original = threading.Thread._set_native_id

    def _set_native_id(self):
        original(self)
        if isinstance(self, threading._DummyThread):  # somebody else's thread, whose own name says more
            return
        try:
            tell(self._name.encode("utf-8", "replace"))
        except Exception:  # pylint: disable=broad-except
            pass

    threading.Thread._set_native_id = _set_native_id


class _AfterImport:
    """Calls a function once a module has been imported by somebody else."""

    def __init__(self, waiting):
        self.waiting = waiting

    def find_spec(self, name, path=None, target=None):  # pylint: disable=unused-argument
        call = self.waiting.pop(name, None)
        if call is None:
            return None
        if not self.waiting and self in sys.meta_path:
            sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        loader = getattr(spec, "loader", None)
        if loader is None or isinstance(loader, type) or not hasattr(loader, "exec_module"):
            return spec
        original = loader.exec_module

        def exec_module(module):
            del loader.exec_module  # only this once
            original(module)
            try:
                call(module)
            except Exception:  # pylint: disable=broad-except
                pass

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass
        return spec


def install():
    """Idempotent."""
    if getattr(install, "done", False):
        return
    install.done = True
    atexit.register(_at_exit)
    waiting = {"threading": _name_threads}
    if os.environ.get("CULPRIT_TORCH_HISTORY") == "1":
        waiting["torch"] = _record_history
    for name in [name for name in waiting if name in sys.modules]:
        try:
            waiting.pop(name)(sys.modules[name])
        except Exception:  # pylint: disable=broad-except
            pass
    if waiting:
        sys.meta_path.insert(0, _AfterImport(waiting))


install()
