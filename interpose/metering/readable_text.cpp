#include "interpose/metering/readable_text.h"

#include <cstdint>

#include "interpose/base/readable_word.h"

namespace culprit {

std::size_t readable_length(const char* text) {
  constexpr std::uint64_t kWord = sizeof(std::uint64_t), kPage = 4096;  // the smallest page size of any machine
  constexpr std::size_t kMost = 64 << 10;
  // No memory of a program lies below the first or above the second, and the kernel's answer is not about it.
  constexpr std::uint64_t kLowest = 4096, kHighest = std::uint64_t{1} << 63;
  for (std::size_t length = 0; length < kMost; ++length) {
    const std::uint64_t address = reinterpret_cast<std::uint64_t>(text) + length;
    // Of the word around it, which lies in one page.
    if ((length == 0 || address % kPage == 0) &&
        (address < kLowest || address >= kHighest || !is_readable_word(address / kWord * kWord)))
      return length;
    if (text[length] == '\0') return length;
  }
  return kMost;
}

}  // namespace culprit
