// At exit: memory to which no pointer is left, so that no code can free it.
//
// LOST is the strongest word of a report, and said only if the search was complete. It reads all memory of the process
// that may have a pointer: roots (root_ranges.h), the chunks of malloc that they lead to, and the memory of the GPU
// that either of them leads to. Everything else is a reason to say nothing: other threads, an interpreter, a graph,
// code on the device, and so on (format::LostSearch).
//
//     roots --> chunks of malloc --> device, managed and pinned memory
//                   ^----------------------'
//
// A reference is any eight bytes, at any address, whose lower 48 bits point into the memory or to its end: tags in the
// upper bits do not hide a pointer. Hidden are pointers that are encoded otherwise (xor, compressed, in two halves).
#pragma once

#include "interpose/causes/caller_state.h"

namespace culprit {

struct Process;

// Writes a HolderRecord without a place for each allocation that nothing refers to, and the outcome into the header.
// Call inside a Recording, on the tracker's own stack, before any object of the program is destroyed. Takes three
// seconds at most, and five beside other threads.
void search_lost(Process& process, const CallerState& caller);

}  // namespace culprit
