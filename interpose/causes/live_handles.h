// The handles of the memory that is live now, for a search of the program's memory or of its objects.
#pragma once

#include <cstdint>

#include "interpose/causes/handle_set.h"

namespace culprit {

struct Process;

// Adds the handle of each live piece of memory to `handles`, which is empty: with the record that a holder of the
// handle holds, and the record's state as the tag. Returns false when there is no memory. handles->release() gives it
// back, where handles->size() is not 0. Takes no lock: a record that ends meanwhile may be among them. `most`: so many
// bytes of the dump are read.
bool collect_live_handles(Process& process, HandleSet* handles, std::uint64_t most = ~0ULL);

}  // namespace culprit
