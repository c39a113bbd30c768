// Tells `culprit run` that this process records nothing, where no dump can say so.
#pragma once

#include "interpose/recorder/options.h"

namespace culprit {

// Stores this process, the errno `error` and the `path` of its dump in the file of CULPRIT_FAILED_STARTS. Does nothing
// where no such file is named, or where it cannot be mapped. Thread- and signal-safe.
void note_failed_start(const Options& options, int pid, int error, const char* path);

}  // namespace culprit
