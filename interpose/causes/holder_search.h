// At exit: which global variables still hold the handles of memory that nobody freed.
#pragma once

#include <cstdint>

namespace culprit {

struct Process;

// Searches the data of the program and its libraries for the live memory handles and writes a HolderRecord for each
// that it finds, and how the search went into the header. To be called inside a Recording, when exit handlers begin to
// run: before the destructors of globals. Takes a second at most.
void search_holders(Process& process);

// Whether pointers in the data of the module at `path` ("" = the program) say that somebody holds them. Not NVIDIA's
// libraries, which keep their own books, and not the system's, which can only hold copies by chance.
bool may_hold_handles(const char* path);

}  // namespace culprit
