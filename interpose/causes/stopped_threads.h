// The threads that a command has stopped, in the words that it wrote: from their number on (format/scan_state.h).
#pragma once

#include <cstdint>
#include <cstring>

#include "interpose/format/scan_state.h"

namespace culprit {

class StoppedThreads {
 public:
  // None if the words have no room for so many.
  StoppedThreads(const std::uint64_t* words, std::uint64_t count)
      : words_(words), count_(count == 0 || words[0] > (count - 1) / kWords ? 0 : words[0]) {}

  std::uint64_t size() const { return count_; }
  format::StoppedThread operator[](std::uint64_t number) const {
    format::StoppedThread thread = {};
    std::memcpy(&thread, words_ + first_word(number), sizeof(thread));
    return thread;
  }
  // Where a thread begins in the words; of size(): where the registers do.
  static std::uint64_t first_word(std::uint64_t number) { return 1 + number * kWords; }

 private:
  static constexpr std::uint64_t kWords = sizeof(format::StoppedThread) / sizeof(std::uint64_t);

  const std::uint64_t* words_;
  std::uint64_t count_;
};

}  // namespace culprit
