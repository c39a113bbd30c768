// The end of a thread: its records go to the shared tables, and its private data is freed.
//
// libc calls exit() in the thread whose end ends the process, when that thread's destructors have run, ours too. Exit
// handlers and the destructors of globals then still allocate and free.
#pragma once

namespace culprit {

struct Process;

// Call once, at load. `note(process)` is called in each recorded thread that ends, before its data is freed.
void prepare_thread_end(void (*note)(Process& process));

// Arranges for the calling thread's end to be noticed. Call when the thread gets data of its own. Thread-safe and
// async-signal-safe; without effect when the process has no key left for thread-specific data.
void watch_thread_end();

// The calling thread's end was handled, and it calls CUDA. Returns true, and lets the thread use the tracker again,
// when it runs exit() now: the thread will end with the process only. On the tracker's own stack only.
bool resume_in_exit();

}  // namespace culprit
