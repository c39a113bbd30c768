// Signals that the command ignores for itself.
#pragma once

namespace culprit::report {

// Ignores SIGXFSZ, so that a file size limit (ulimit -f) makes a write fail with EFBIG. Call once, at the start.
void ignore_file_size_signal();

// In a forked child, before it executes a program: the program gets the dispositions that this process was started
// with. Async-signal-safe.
void restore_inherited_signals();

}  // namespace culprit::report
