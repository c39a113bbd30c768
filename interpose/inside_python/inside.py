"""The part of libculprit.so that runs inside the interpreter. python_view.cpp runs this source once in an interpreter,
in its main thread, then calls add() with the other sources, then begin().

Given by the library: sys; name_thread(number, name, ended); at_exit, which takes the last view; note_end, which
notes the memory in use when the interpreter begins to end; on_ran_out, which takes
one when memory ran out; heap_edges, heap_objects and words
(heap_graph.h); pointers (raw_pointers.h); copying_time, yield_gil, freeze and
leave (frozen_copy.h); torch_history; and a copy of the builtins, which belongs to this code alone.

All of this runs between two lines of the program, like a signal handler. So it imports nothing for the program, takes
no lock of Python code, raises no error of its own, prints nothing, and makes no name in a module of the program, except
threading.Thread._set_native_id.
"""
# pylint: disable=undefined-variable,used-before-assignment,protected-access
# ruff: noqa: F821

own = type(sys.implementation)()  # the modules of this code
state = {"names": False, "torch": False, "queued": False, "tries": 0, "ran_out": None, "ends": False,
         "asked": False}
# Without PyTorch it is looked for this often, in case that it is imported after the first CUDA call.
_MOST_TRIES = 100


def import_own(name, globals_=None, locals_=None, names=(), level=0):  # pylint: disable=unused-argument
    """The import statements of this code. A module that is missing is part of the interpreter: no finder is asked."""
    if name == "culprit":
        return own
    found = sys.modules.get(name)
    return found if found is not None else sys.modules["_frozen_importlib"]._builtin_from_name(name)


__builtins__["__import__"] = import_own


def add(name, variables):
    vars(own)[name] = type(own)(**variables)


def has_startup_hook():
    """Whether the package of an older culprit, with a start-up hook, is in the program's environment."""
    return "_culprit_startup" in sys.modules


def begin():
    import atexit

    if not has_startup_hook():
        atexit.register(at_exit)
        atexit.register(_ends)
        _before_exit_handlers()
    _for_a_child_of_multiprocessing()


def _before_exit_handlers():
    """Handlers of atexit that the program adds later run before those of this code. threading's own handlers run before
    all of them, once the main module has ended."""
    register = getattr(sys.modules.get("threading"), "_register_atexit", None)
    if register is None or state["asked"]:
        return
    state["asked"] = True
    try:
        register(_ends_without_threads)
    except Exception:  # pylint: disable=broad-except  # the interpreter ends already
        pass


def _ends():
    """The program may start the interpreter again, with new modules and another copy of this code."""
    if not state["ends"]:
        state["ends"] = True
        note_end()


def _ends_without_threads():
    """While other threads of the program run, the program has not ended, and _ends() comes later."""
    try:
        threads = list(sys.modules["threading"]._active.values())
        if sum(not thread._daemonic for thread in threads) <= 1:
            _ends()
    except Exception:  # pylint: disable=broad-except
        pass


def _for_a_child_of_multiprocessing():
    """A child that multiprocessing forked ends without atexit's handlers."""
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, at_exit, exitpriority=-1000)


def update():
    """Looks at what the program has imported since. Returns whether nothing is left to do."""
    _before_exit_handlers()
    names = has_startup_hook() or _name_threads()
    return (state["torch"] or _watch_torch()) and names


def _name_threads():
    threading = sys.modules.get("threading")
    thread_type = getattr(threading, "Thread", None)
    if getattr(threading, "_DummyThread", None) is None:  # not imported, or not completely
        return False
    if not state["names"]:
        state["names"] = True
        original = thread_type._set_native_id

        # It returns before Thread.run begins, so that tracebacks do not contain it.
        def _set_native_id(self):
            original(self)
            _name_thread(threading, self)

        thread_type._set_native_id = _set_native_id
    running = list(threading._active.values())
    for thread in _ended_threads(threading, running):
        _name_thread(threading, thread, True)
    for thread in running:
        _name_thread(threading, thread)
    return True


def _ended_threads(threading, running):
    """Those whose objects the program still has. While it waits for its threads, this code cannot run."""
    references = getattr(getattr(threading, "_dangling", None), "data", None)
    if type(references) is not set:
        return []
    threads = [reference() for reference in list(references)]
    return [thread for thread in threads if thread is not None and thread._native_id is not None
            and not any(thread is one for one in running)]


def _name_thread(threading, thread, ended=False):
    try:
        # A thread that Python did not start has a better name in the kernel.
        if isinstance(thread, threading._DummyThread) or (
                thread._name == "MainThread" and isinstance(thread, threading._MainThread)):
            return
        name_thread(thread._native_id, thread._name.encode("utf-8", "replace"), ended)
    except Exception:  # pylint: disable=broad-except
        pass


def _watch_torch():
    """PyTorch is asked for two things from the moment on at which the program has initialized CUDA: to tell when memory
    runs out, and to record the Python line of each block. Initializing it here would take GPU memory and forbid
    forking. Returns whether nothing is left to do."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    is_initialized = getattr(cuda, "is_initialized", None)
    if is_initialized is None:
        state["tries"] += 1
        return torch is None and not torch_history and state["tries"] > _MOST_TRIES
    if is_initialized():
        _torch_is_initialized()
    elif not state["queued"] and isinstance(getattr(cuda, "_queued_calls", None), list):
        # torch.cuda._lazy_call() takes a lock that the interrupted line of the program may hold.
        state["queued"] = True
        cuda._queued_calls.append((_torch_is_initialized, []))
    return state["torch"]


def _torch_is_initialized():
    """PyTorch tells of an allocation that fails in the thread that needs it and while everything is alive; without that
    the view of such a moment is taken before the main thread's next call."""
    if state["torch"]:
        return
    state["torch"] = True
    torch = sys.modules.get("torch")
    attach = getattr(getattr(torch, "_C", None), "_cuda_attach_out_of_memory_observer", None)
    record = getattr(getattr(getattr(torch, "cuda", None), "memory", None), "_record_memory_history", None)
    try:
        attach(on_ran_out)
    except Exception:  # pylint: disable=broad-except  # another allocator, or another version, without observers
        pass
    if torch_history:
        try:
            record(enabled="state", context="state", stacks="python")
        except Exception:  # pylint: disable=broad-except
            pass


def natives():
    """The library's functions that read the heap."""
    return heap_edges, heap_objects, words, pointers, memory_sizes, exported, native_holders


def take(taken):
    """The text of the view of this moment; None when there is nothing to tell."""
    view = own._view.collect(taken, own._view.MOST_OBJECTS, natives())
    if taken == "out-of-memory":
        state["ran_out"] = view
        return None if view is None else own._view.text(view)
    if view is None and state["ran_out"] is None:
        return None
    return own._view.text(view or own._view.without_frameworks(taken), state["ran_out"])


def take_frozen():
    """The view for `culprit tensors PID`: the objects are looked at in a frozen copy of the process. Returns whether
    there is one; None: no framework is in use."""
    import gc

    view = own._view.collect("snapshot", False)
    if view is None and pointers() == 0:
        return None
    view = view or own._view.without_frameworks("snapshot")
    known = own._readers.known_arrays(view["unread"])
    collects = gc.isenabled()
    interval = sys.getswitchinterval()
    # A thread that waits for the GIL asks for it after this time. No such request may lie in the copy, which has one
    # thread: it would wait for another one for ever. Those that wait now have asked, and had their turn, before
    # yield_gil() is over; those that wait then ask once the copy is there.
    longer = max(interval, min(2e-6 * copying_time() + 0.002, 0.05))
    try:
        sys.setswitchinterval(longer)
        yield_gil(int(min(interval, 0.01) * 1e6) + 1000)
        gc.disable()
        for _ in range(3):
            _no_work()  # a collection that is due takes place here
        copied = freeze()
        if copied == 0:
            _look_at_copy(view, known)
    finally:
        if collects:
            gc.enable()
        sys.setswitchinterval(interval)
    if longer != interval:
        yield_gil(0)
    return copied == 1


def _no_work():
    pass


def _look_at_copy(view, known):
    """In the copy; does not return."""
    text = None
    try:
        view["graph"] = own._view.graph(view, natives(), known)
        text = own._view.text(view)
    except BaseException:  # pylint: disable=broad-except
        pass
    finally:
        leave(text)


def guarded(work, *arguments):
    """The work's result; False when it fails. An exception of the program's signal handler goes on to the program."""
    try:
        return work(*arguments)
    except Exception as error:  # pylint: disable=broad-except
        if own._referrers.is_of_a_signal_handler(error):
            raise
        return False
