// Switches recording on and off while the program runs: CULPRIT_START=signal, culprit start and stop, culprit.h.
//
// While recording is off, new allocations are not recorded. Frees of recorded ones are, so that freed memory does not
// look leaked. Freeing something that was allocated while recording was off is counted in unknown_frees. There is no
// dump until recording is first on.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"

namespace culprit {

struct Process;

// Whether a process that does not record yet should start with this CUDA call. The call also counts as a sign of CUDA.
bool recording_wanted();

// Switches recording on or off, for this process and its later fork children. Does nothing if already so. Thread-safe
// and async-signal-safe.
void switch_recording(bool on);

// Whether recording is off now, also before the first call of CUDA. Thread-safe and async-signal-safe.
bool recording_is_off();

// At load: with CULPRIT_START=signal recording is off, and the signal that CULPRIT_SIGNAL names (USR2 where that cannot
// be used) switches it. The handler is installed only in a process that uses CUDA: at load if the program is linked to
// a CUDA library, else at the first sign of CUDA. It is installed only if the signal has its default action; otherwise
// there is a warning on standard error, and recording stays off. Without CULPRIT_START=signal no signal is touched.
void prepare_recording_switch();

// The program looked up a CUDA function by name, or called one: installs the signal handler if that is still to be
// done. Otherwise costs one load. Thread-safe and async-signal-safe, keeps errno.
void note_sign_of_cuda();

// The program ran before recording: a dump that begins from now on stores the time of its first observation.
void begin_late();

// Whether allocations were unrecorded for some time, in this process or in its fork parent.
bool began_late();

// For an attach, before it records: reads the memory in use on each device on which the process has an accessible
// context, in the calling thread, and begins a span with that reading. Without such a context the first allocation
// begins the span.
void begin_span_at_attach(Process& process);

// Called when recording has begun, before other threads see the Process: applies the state of the switch.
void begin_switched(Process& process);

// The rare paths of note_made(). Something was made on `device` with `bytes` of device memory: returns false when it
// must not be recorded; otherwise adds to `flags` (format::AllocationFlags).
CULPRIT_COLD bool note_mode(Process& process, std::uint8_t device, std::uint64_t bytes, std::uint8_t* flags);

}  // namespace culprit
