// The kernel's restrictions on system calls and mappings of this process, from /proc/thread-self/status: read before
// cuInit(), when recording starts, and whenever the dump grows.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"

namespace culprit {

// How often the calling thread reads the file: once in 10 ms while it runs on the tracker's own stack (own_stack.h),
// because it runs no code of the program meanwhile. Another thread may give all threads a filter.
enum class RestrictionsLook : std::uint8_t { kAlways = 0, kOnce, kDone };
extern CULPRIT_OWN __thread RestrictionsLook restrictions_look __attribute__((tls_model("initial-exec")));

// Reads the file. Thread- and signal-safe.
void look_at_restrictions();

// There is a seccomp filter, which may kill the process for an unknown system call: only calls marked "always" in
// system_calls.txt are made then.
bool calls_restricted();

// Like calls_restricted(), but reads the file again after 10 ms: for system calls long after the start, when the
// program may have installed a filter. The clock is read without a system call.
bool calls_restricted_now();

// The process has the right to raise hard limits, at the last look.
bool may_raise_limits();

// How many filters the process had at the last look; -1: not known (before Linux 5.9). In a root directory without
// /proc there is no later look.
int seccomp_filters();

// How many threads the process had at the last look; 0: not known. What is instantaneous in a process with one thread
// can wait for all processors in one with several (RCU in the kernel): see prepare_to_meet_threads() and open_high().
std::uint64_t threads_seen();
// The size of its table of descriptors at the last look; 0: not known.
std::uint64_t descriptor_table_seen();

// The process locks memory: new mappings may be locked, see own_memory.h.
bool memory_locked();

}  // namespace culprit
