// A copy of the process, as fork() makes one, in which the view walks over the heap while the process runs on. The copy
// shares the descriptors, runs none of the program's code, and ends by itself after a minute at the latest
// (system/frozen_child.h).
//
// A raw clone(): no handler of pthread_atfork() runs, and no signal tells of its end. Rejected: slices over live
// objects, whose addresses are used again; fork(), whose handlers are the program's; a walk with the GIL held, which
// stops the heartbeats of NCCL and of servers for seconds.
#pragma once

#include "interpose/inside_python/interpreter.h"
#include "interpose/process/process.h"

namespace culprit {

// From an injector: asks the interpreter's main thread for a copy. The result is in culprit_frozen
// (format/frozen_copy.h). On the tracker's own stack only.
void ask_for_frozen_copy(Process& process);

// From an injector: takes the request back, ends the copy, and waits for it.
void end_frozen_copy();

// In the main thread, with the GIL: note where the request is.
void note_frozen_served(Process& process);
// After the Python code: does not return in the copy, which must never go on with the program.
void end_if_frozen_copy();
void note_frozen_result(Process& process, PyObject* result);

// Whether this is the copy, which nothing waits for.
bool is_frozen_copy();

// The process whose records a view reads; in the copy, whose own page with that fact is wiped, the one that was copied.
// nullptr: nothing is recorded.
Process* process_of_records();
// How much of its dump may be read. In the copy the dump is shared with the process, where it grows, and the copy lacks
// what was mapped later.
std::uint64_t bytes_of_records();

// Functions for the Python code. copying_time() -> the microseconds for which a copy would stop the process, about.
// yield_gil(MICROSECONDS): lets other threads run for this time. freeze() -> 1 in the process, 0 in the copy, -1 when
// there is none. leave(TEXT): ends the copy, whose result is TEXT, bytes or None.
PyObject* copying_time(PyObject* self, PyObject* arguments);
PyObject* yield_gil(PyObject* self, PyObject* arguments);
PyObject* freeze(PyObject* self, PyObject* arguments);
PyObject* leave(PyObject* self, PyObject* arguments);

}  // namespace culprit
