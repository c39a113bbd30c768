// The search for lost memory in a process that runs: in a frozen copy of it (system/frozen_child.h), while the process
// goes on. The state is in culprit_scan (format/scan_state.h).
#pragma once

#include <cstdint>

namespace culprit {

struct Process;

// From an injector, which has stopped the other threads. `words`: see format/scan_state.h. On the tracker's own stack.
void begin_lost_scan(Process& process, const std::uint64_t* words, std::uint64_t count);

// From an injector: ends the copy.
void end_lost_scan();

}  // namespace culprit
