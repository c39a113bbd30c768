"""The start-up hook: culprit.pth runs it when an interpreter starts under culprit, before the program's code.

- At the interpreter's end the hook writes the view from inside the frameworks beside the dump (see _view.py).
- With CULPRIT_TORCH_HISTORY=1 (culprit run --torch-history) PyTorch records the Python line of each block, as soon as
  the program has imported PyTorch and initialized CUDA.
- Threads pass their names to culprit.

The hook imports no module for the program, prints nothing, and raises no error.
"""
import atexit
import os
import sys


def dump_path():
    """The path of this process's dump; None before the first CUDA call."""
    import ctypes  # not at start-up: most programs do not need it

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

    # Calls begin() when the program initializes CUDA, or now if it has. Initializing CUDA here would take GPU memory
    # and forbid forking.
    torch.cuda._lazy_call(begin)  # pylint: disable=protected-access


def _name_threads(threading):
    """Each thread passes its name to culprit before it runs. The wrapped method returns before Thread.run begins, so
    that tracebacks do not contain it."""
    import ctypes

    try:
        tell = ctypes.CDLL(None).culprit_api_thread_name
    except AttributeError:
        return
    tell.restype = None
    original = threading.Thread._set_native_id

    def _set_native_id(self):
        original(self)
        # A thread that Python did not start has a better name in the kernel.
        if isinstance(self, threading._DummyThread):
            return
        try:
            tell(self._name.encode("utf-8", "replace"))
        except Exception:  # pylint: disable=broad-except
            pass

    threading.Thread._set_native_id = _set_native_id


class _AfterImport:
    """Calls a function after the program has imported a module."""

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
            del loader.exec_module  # the next import is not wrapped
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
