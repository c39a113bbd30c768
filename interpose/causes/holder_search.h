// At exit: which global variables still hold handles of memory that was not freed.
#pragma once

#include <cstdint>

namespace culprit {

struct Process;

// Searches the data of the program and its libraries for live memory handles, writes a HolderRecord for each one found,
// and stores the outcome in the header. Call inside a Recording when exit handlers begin to run, before the destructors
// of globals. Takes a second at most.
void search_holders(Process& process);

// Whether a handle in the data of the module at `path` ("" = the program) counts as held. False for NVIDIA's libraries,
// which do their own bookkeeping, and for system libraries, which hold copies only by chance.
bool may_hold_handles(const char* path);

}  // namespace culprit
