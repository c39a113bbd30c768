// Tells `culprit run` that this process records, or that it cannot.
#pragma once

#include "interpose/process/options.h"

namespace culprit {

// Counts this process as one that records, or, with an errno `error`, stores it as one that could not make its dump at
// `path`: in the file of CULPRIT_RUN_STARTS, or else by a message to CULPRIT_RUN_SOCKET. Without both it leaves the
// news in culprit_api_start_state, where `culprit run` finds it while the process lives. Does nothing without such a
// file. Thread- and signal-safe. On the tracker's own stack only.
void note_run_start(const Options& options, int pid, int error, const char* path);

// For a process without memory for the recorder's first structures: writes a warning, and tells `culprit run`.
void tell_no_memory();

// Counts this process as one that waits for recording to be switched on, until note_run_start(). Does nothing without
// the file, and the second time. Thread- and signal-safe.
void note_waiting();

// Whether the dump's `path` is in the folder that `culprit run` made for this run, and removes at its end: it must not
// be made again, nor in another root directory.
bool is_in_folder_of_run(const Options& options, const char* path);

}  // namespace culprit
