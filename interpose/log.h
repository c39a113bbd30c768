// What the library says on standard error. Two ways: a warning that can not wait is written with write(2) from wherever
// it happens; everything else is said by spdlog at exit, outside hooks and outside our locks.
#pragma once

#include "interpose/options.h"

namespace culprit {

struct Process;

// The dump could not be made: once, at the first CUDA call. Never allocates.
void warn_not_recording(const Options& options, const char* path, int error);

// Recording stopped half-way (full disk, size limit): once. Never allocates. Cheap when there is nothing to say.
void warn_if_stopped(Process& process);

// The line at exit, and with CULPRIT_LOG=info or debug what was recorded. Allocates; not to be called from a hook.
void log_summary(Process& process);

}  // namespace culprit
