// Tells `culprit run` that this process records, or that it cannot.
#pragma once

#include "interpose/recorder/options.h"

namespace culprit {

// Counts this process as one that records, or, with an errno `error`, stores it as one that could not make its dump at
// `path`: in the file of CULPRIT_RUN_STARTS. Does nothing without such a file, or where mapping fails.
// Thread- and signal-safe.
void note_run_start(const Options& options, int pid, int error, const char* path);

}  // namespace culprit
