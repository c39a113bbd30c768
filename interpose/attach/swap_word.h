// Stores into the program's memory, which the program may unmap, or make read-only, at any moment.
//
// `culprit attach` traces the thread that stores: when a store raises SIGSEGV or SIGBUS, it lets the thread go on where
// the table culprit_faults says, like the kernel's tables of exceptions. Rejected: a system call that stores (none
// compares), and a handler for these signals (the program's other threads would run it too). Known: such a store in the
// milliseconds after culprit was killed in the middle of a step ends the program.
#pragma once

#include <cstdint>

#include "interpose/format/attach_request.h"

namespace culprit {

// Stores `after` where `before` is. False: something else is there, or nothing any more.
inline bool swap_word(std::uint64_t place, std::uint64_t before, std::uint64_t after) {
#ifdef __x86_64__
  bool done = false;
  asm volatile(
      "1: lock cmpxchgq %[after], (%[place])\n"
      "   sete %[done]\n"
      "2:\n"
      ".pushsection culprit_fault_table, \"aw\"\n"
      ".quad 1b, 2b\n"
      ".popsection\n"
      : [done] "+q"(done), "+a"(before)
      : [place] "r"(place), [after] "r"(after)
      : "memory", "cc");
  return done;
#else
  return __atomic_compare_exchange_n(reinterpret_cast<std::uint64_t*>(place), &before, after, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
#endif
}

}  // namespace culprit
