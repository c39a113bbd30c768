// A copy of this process, as fork() makes one, in which its memory is looked at while the process runs on.
//
// A raw clone(): no handler of pthread_atfork() runs, and no signal tells of its end, so that no wait() of the program
// sees it. The copy runs none of the program's code, and ends by itself after a minute at the latest.
#pragma once

#include <cstdint>

namespace culprit {

// How much memory of this process a copy would have to copy the tables of.
std::uint64_t private_bytes_of_process();

// For how long making the copy stops the process, about: copying the tables of 1 GiB of small pages takes 10 ms on a
// fast machine, 40 ms on a slow virtual one.
std::uint64_t copying_microseconds(std::uint64_t private_bytes);
constexpr std::uint64_t kUsualMostMicroseconds = 50000;

enum class FrozenFiles {
  kShared,  // the copy has the process's descriptors, and makes none
  kOwn,     // it has none, and may open some
};

// Returns 0 in the copy, its number in the process, or an errno, negative. All signals are blocked in the copy.
long make_frozen_child(FrozenFiles files);

// In the copy: until it is ended from outside.
[[noreturn]] void wait_as_frozen_child();
// In the copy: at once.
[[noreturn]] void end_as_frozen_child();

// In the process: ends the copy and waits for it. Returns false if it did not end.
bool end_frozen_child(int child);

}  // namespace culprit
