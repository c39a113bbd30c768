// The end of a thread, reported to the code that follows exceptions.
#pragma once

namespace culprit {

struct Process;

// The calling thread ends. If it was cancelled, its frames are gone, and its live allocations are marked as abandoned.
void note_thread_end(Process& process);

}  // namespace culprit
