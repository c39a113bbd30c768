// Messages on standard error: written with write(2) and without malloc, because some are written in a hook, and some in
// a signal handler that ends the process.
#pragma once

#include "interpose/dump/dump_tables.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/process/options.h"

namespace culprit {

// The dump could not be created. Written once, at the first CUDA call, fork children included.
void warn_not_recording(const Options& options, const char* path, int error);

// The same for a process without memory for the recorder.
void warn_no_memory(const Options& options);

// With CULPRIT_START=signal: the value `chosen` of CULPRIT_SIGNAL cannot be used; signal `used` is used instead.
void warn_signal_refused(const char* chosen, int used);

// With CULPRIT_START=signal: the program handles or ignores signal `number`, so recording stays off.
void warn_signal_taken(int number, bool ignored);

// Names the environment variables with unusable values and the values used instead. Written once, fork children
// included.
void warn_refused_options(const Options& options);

// Recording stopped early (full disk), or the dump reached its limit.
void warn_stopped(DumpWriter& dump);

// With CULPRIT_LOG=debug: the first pointer at exit to memory that was not freed, and where it lies.
void log_pointer(const Options& options, std::uint64_t memory, std::uint64_t pointer, const char* place);

// With CULPRIT_LOG=info or debug: why other threads were not stopped for a search at exit.
void log_not_held(const Options& options, const char* why);

// The line at exit, and with CULPRIT_LOG=info or debug a summary of the recording.
void log_summary(DumpWriter& dump, DumpTables& tables, const Options& options);

}  // namespace culprit
