// Tells most words that are no address of a search from the others by their bits 32 to 47: a search looks at eight
// bytes from each byte on, and most of them are numbers and text.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <cstring>

namespace culprit {

// All zeros: no address.
class AddressFilter {
 public:
  // The addresses from `begin` to `end`, both included, without bits above the 47th.
  void add(std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t upper = begin >> 32; upper <= end >> 32 && upper < kUppers; ++upper)
      bits_[upper / 64] |= 1ULL << upper % 64;
  }

  // Calls visit(offset) for each offset at which eight bytes may be such an address.
  template <typename Visit>
  void for_each(const unsigned char* copy, std::uint64_t bytes, Visit visit) const {
    constexpr std::uint64_t kWord = sizeof(std::uint64_t);
    const bool zero = has(0);
    for (std::uint64_t i = 0; i + kWord <= bytes; ++i) {
      // The upper halves of this word and of the six after it, if the memory is all zeros.
      if (!zero && i + 4 + kWord <= bytes && load<std::uint64_t>(copy + i + 4) == 0) {
        i += kWord - sizeof(std::uint16_t);
        continue;
      }
      if (has(load<std::uint16_t>(copy + i + 4))) visit(i);
    }
  }

 private:
  static constexpr std::uint64_t kUppers = 1 << 16;

  bool has(std::uint16_t upper) const { return (bits_[upper / 64] >> upper % 64 & 1) != 0; }
  template <typename T>
  static T load(const unsigned char* place) {
    T value;
    std::memcpy(&value, place, sizeof(value));
    return value;
  }

  std::uint64_t bits_[kUppers / 64] = {};
};

}  // namespace culprit
