// What the ends of threads tell the part that follows exceptions.
#pragma once

namespace culprit {

struct Process;

// The calling thread ends. When it was cancelled, what it made and nobody freed went with its frames.
void note_thread_end(Process& process);

}  // namespace culprit
