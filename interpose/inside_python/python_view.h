// The view from inside a Python interpreter: names of threads, and what lives in the caches of PyTorch and CuPy.
//
// The library brings the code along (inside.py and two files of the Python package, in view_sources.S). It asks the
// interpreter for a call in its main thread (Py_AddPendingCall, which needs neither the GIL nor a thread state), and
// runs the code there, between two lines of the program, like the interpreter runs a handler of a signal. Nothing is
// imported for the program: the code has a namespace of its own in PyInterpreterState_GetDict().
//
//     first stack with Python frames, or attach      the code is loaded; names of threads come out from now on
//     an allocation fails, a snapshot                a view
//     the interpreter's end (atexit)                 a view
//
// Interpreters that hide their functions, that have no GIL or an unknown version, and subinterpreters are left alone.
#pragma once

#include "interpose/inside_python/interpreter.h"

#include <cstdint>

#include "interpose/call_stack/view_requests.h"

namespace culprit {

struct Process;

// Serves requests: see request_view(). On the tracker's own stack only. Thread-safe; never waits.
void serve_view_requests(Process& process, std::uint32_t requests);

// Asks for a view beside the snapshot at `path`. Otherwise like serve_view_requests().
void request_snapshot_view(Process& process, const char* path);

// The dictionary with the view's code in the calling interpreter, for the Python package: a borrowed reference;
// nullptr: the code cannot be there, and no error is set. Needs the GIL.
PyObject* view_scope();

}  // namespace culprit
