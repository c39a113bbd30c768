// The part of a thread's stack that stays mapped until the thread ends: memory that may be read at any time, whatever
// led to its address.
#pragma once

#include <cstdint>

namespace culprit {

struct ThreadStack {
  std::uint64_t begin;  // all zeros = not known
  std::uint64_t end;
};

// The calling thread's stack, if `address` lies in it; all zeros if not, for example when a user thread runs on a stack
// of its own. Reads /proc/self/maps: some hundred microseconds. On the tracker's own stack only.
ThreadStack find_thread_stack(std::uint64_t address);

}  // namespace culprit
