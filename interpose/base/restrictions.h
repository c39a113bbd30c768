// What the kernel does with calls and mappings of this process, as /proc/thread-self/status tells: read when recording
// starts and whenever the dump grows.
#pragma once

namespace culprit {

// Reads it. Thread- and signal-safe.
void look_at_restrictions();

// A seccomp filter is there, which may kill the process for a call that it does not know: only those of
// system_calls.txt marked "always" are made then.
bool calls_restricted();

// The same, looked at again when the last look was more than 10 ms ago: for calls that are made long after the start,
// when the program may have installed a filter. The clock is read without a system call.
bool calls_restricted_now();

// The process locks memory: what is mapped from now on may be locked, see own_memory.h.
bool memory_locked();

}  // namespace culprit
