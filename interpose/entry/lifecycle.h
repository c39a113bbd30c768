// Load, the ends of threads, and the end of the process.
#pragma once

namespace culprit {

// Called when recording starts, and at each new stack: registers what must run when the process exits, once. On the
// tracker's own stack only.
void register_exit_handlers();

// Called when a thread registers: sees to it that its end is noticed.
void watch_thread_end();

// libc's functions that we stand in front of. Never nullptr once the library is loaded: a libc without them is none.
void* next_pthread_exit();
void* next_pthread_cancel();

}  // namespace culprit
