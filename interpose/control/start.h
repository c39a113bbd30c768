// Where a recording begins and ends: what a new process starts with, and what it gives back.
#pragma once

namespace culprit {

struct Process;

// Creates the process's dump; `called`: a hook was called. Returns 0 or an errno. On the tracker's own stack only, in
// one thread.
int start_recording(Process& process, bool called);

// Before cuInit(), whose threads make two steps of the start slow: registers for membarrier(2), and enlarges the table
// of descriptors, if the process has one thread. Nothing of the program's changes. Once in each process.
void prepare_for_driver_threads();

// For attach.cpp. Creates a dump; the caller follows with begin_recording(). Returns nullptr on failure; `error` is
// then an errno.
Process* prepare_recording(int* error);

// Sets Phase::kDetached, and marks the dump as detached. Once wait_for_threads() has returned true, no hook writes to
// the dump any more.
void end_recording(Process& process);

// Frees all mappings of recording, so that it can begin again. Only when no thread is in the tracker.
void release_recording();

}  // namespace culprit
