// Recording switched on and off while the program runs: CULPRIT_START=signal, culprit start and stop, culprit.h.
//
// Off means that nothing new is noted. What was noted before is still followed, so that memory which is freed meanwhile
// does not look leaked; what is made meanwhile is unknown, and its free later counts as one "from before". As long as
// recording was never on there is no dump.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/format/dump_format.h"

namespace culprit {

struct Process;

// Whether a process that has not begun to record is to begin with its next CUDA call. Called at such a call: a sign of
// CUDA too.
bool recording_wanted();

// Switches recording on or off, for this process and those that it forks later. What is so already stays. Thread-safe
// and async-signal-safe.
void switch_recording(bool on);

// At load: with CULPRIT_START=signal recording is off, and the signal that CULPRIT_SIGNAL names (USR2 where that cannot
// be used) switches it. The signal is taken in a process that uses CUDA only: now where a CUDA library is among the
// program's own, else at the first sign of CUDA. Only one with its default action is taken; that a program handles or
// ignores it itself is said on standard error, and recording stays off. Without CULPRIT_START=signal no signal is
// touched.
void prepare_recording_switch();

// The program asked for a CUDA function by name, or called one: takes the signal if that is still to be done. Costs one
// load otherwise. Thread-safe and async-signal-safe, keeps errno.
void note_sign_of_cuda();

// The program ran before: a dump that begins from now on says from when on it saw anything.
void begin_late();

// Whether there was a time, here or in the process that forked this one, when what was made was not recorded.
bool began_late();

// For an attach, before it records: reads what is in use on each device on which the process has a context that can be
// got hold of, in the calling thread, and begins the stretch with that. Without one that is left to the first
// allocation.
void begin_span_at_attach(Process& process);

// Called once recording has begun, before anybody else sees the process: takes over how the switch stands.
void begin_switched(Process& process);

// The rare ways through note_made(). Something was made on `device`, `bytes` of it device memory: false when it is not
// to be noted, else adds to `flags` (format::AllocationFlags) what is to be remembered of the moment.
CULPRIT_COLD bool note_mode(Process& process, std::uint8_t device, std::uint64_t bytes, std::uint8_t* flags);

}  // namespace culprit
