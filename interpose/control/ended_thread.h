// The work at the end of a thread (process/thread_end.h notices it): its records go to the shared tables, and its
// private data is freed.
#pragma once

namespace culprit {

// The calling thread ends; its destructors have run, but for those that no round is left for.
void end_thread();

}  // namespace culprit
