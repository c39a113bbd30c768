// The first call of a process: creates its dump and describes the process in it.
#pragma once

namespace culprit {

struct Process;

// Creates the process's dump; `called`: a hook was called. Returns 0 or an errno. On the tracker's own stack only, in
// one thread.
int start_recording(Process& process, bool called);

}  // namespace culprit
