// Load, the ends of threads, and the end of the process.
#pragma once

namespace culprit {

// Registers the exit handlers, once. Called when recording starts, and at each new stack. On the tracker's own stack
// only.
void register_exit_handlers();

// Called when a thread registers: arranges for a notification of its end.
void watch_thread_end();

// The libc functions behind our hooks. Never nullptr once the library is loaded.
void* next_pthread_exit();
void* next_pthread_cancel();

}  // namespace culprit
