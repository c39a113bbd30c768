// Load, the ends of threads, and the end of the process.
#pragma once

namespace culprit {

// Called when recording starts, from inside a hook: registers what must run when the process exits.
void register_exit_handlers();

// Called when a thread registers: sees to it that its end is noticed.
void watch_thread_end();

// The real dlsym, looked up at load (redirect.cpp).
void prepare_dlsym();

}  // namespace culprit
