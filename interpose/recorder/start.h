// The first call of a process: creates its dump and describes the process in it.
#pragma once

namespace culprit {

struct Process;

// Creates the process's dump; `called`: a hook was called. Returns 0 or an errno. On the tracker's own stack only, in
// one thread.
int start_recording(Process& process, bool called);

// Before cuInit(), whose threads make two steps of the start slow: registers for membarrier(2), and enlarges the table
// of descriptors, if the process has one thread. Nothing of the program's changes. Once in each process.
void prepare_for_driver_threads();

// For a process without memory for the recorder's first structures: writes a warning, and tells `culprit run`. Once.
void tell_no_memory();

}  // namespace culprit
