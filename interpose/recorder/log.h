// What the library says on standard error: with write(2) and without malloc, since some of it is said in a hook and
// some in a signal handler that ends the process, wherever that interrupted the program.
#pragma once

#include "interpose/recorder/options.h"

namespace culprit {

struct Process;

// The dump could not be made: once, at the first CUDA call.
void warn_not_recording(const Options& options, const char* path, int error);

// With CULPRIT_START=signal: CULPRIT_SIGNAL is `chosen`, which cannot be used, and signal `used` is used instead.
void warn_signal_refused(const char* chosen, int used);

// With CULPRIT_START=signal: the program handles signal `number` itself, or it is ignored: recording stays off.
void warn_signal_taken(int number, bool ignored);

// Names the environment variables whose values cannot be used, and what is used instead: once, fork children included.
void warn_refused_options(const Options& options);

// Recording stopped half-way (full disk), or the dump reached its limit: once each. Cheap when there is nothing to say.
void warn_if_stopped(Process& process);

// The line at exit, and with CULPRIT_LOG=info or debug what was recorded.
void log_summary(Process& process);

}  // namespace culprit
