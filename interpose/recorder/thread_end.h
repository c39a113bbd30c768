// The end of a thread: its records go to the shared tables, and its private data is freed.
#pragma once

namespace culprit {

struct Process;

// Call once, at load. `note(process)` is called in each recorded thread that ends, before its data is freed.
void prepare_thread_end(void (*note)(Process& process));

// Arranges for the calling thread's end to be noticed. Call when the thread gets data of its own. Thread-safe and
// async-signal-safe; without effect when the process has no key left for thread-specific data.
void watch_thread_end();

}  // namespace culprit
