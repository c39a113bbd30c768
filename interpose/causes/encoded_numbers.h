// Addresses as the runtimes of other languages keep them: a program gets the address of GPU memory by a foreign call,
// and has it as a number of its language, which is not the same eight bytes.
//
//     2n, 2n+1, 4n.., 8n.., 16n..  fixnums of Lisp, OCaml, Ruby, Guile, Scheme, Erlang: the lowest bits are the type
//     a double                     numbers of Lua, JavaScript, R, Octave
//     30 bits and 30 bits          int of Python
//
// Each way keeps the order of addresses, so that the encoded ones of a range are a range: few words are in any.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace culprit {

// First add() for all ranges, then finish().
class EncodedNumbers {
 public:
  // The addresses from `begin` to `end`, both included. Smaller ones than 4 GiB are left out: encoded they are as small
  // as other numbers.
  void add(std::uint64_t begin, std::uint64_t end) {
    if (end < kLeast || end >= kEnd) return;
    least_ = std::min(least_, std::max(begin, kLeast));
    most_ = std::max(most_, end);
  }

  void finish() {
    if (least_ > most_) return;
    for (int way = 0; way < kWays; ++way) {
      ways_[way].least = encode(way, least_);
      ways_[way].span = (encode(way, most_) | low_bits(way)) - ways_[way].least;
      first_ = std::min(first_, ways_[way].least);
      note_uppers(ways_[way]);
    }
  }

  // Calls visit(address) for each address that the word may be.
  template <typename Visit>
  void for_each(std::uint64_t word, Visit visit) const {
    const std::uint64_t upper = word >> kMantissaBits;
    if (word < first_ || (uppers_[upper / 64] >> upper % 64 & 1) == 0) return;
    for (int way = 0; way < kWays; ++way) {
      if (word - ways_[way].least > ways_[way].span) continue;
      const std::uint64_t address = decode(way, word);
      if (encode(way, address) == (word & ~low_bits(way))) visit(address);
    }
  }

 private:
  static constexpr int kShifts = 4;
  static constexpr int kDigits = kShifts;
  static constexpr int kWays = kShifts + 2;  // the last one: a double
  static constexpr std::uint64_t kLeast = 1ULL << 32;
  static constexpr std::uint64_t kEnd = 1ULL << 48;
  static constexpr int kDigitBits = 30;
  static constexpr int kMantissaBits = 52;
  static constexpr std::uint64_t kMantissa = (1ULL << kMantissaBits) - 1;
  static constexpr std::uint64_t kExponentOfOne = 1023;

  // Those that are the type.
  static constexpr std::uint64_t low_bits(int way) { return way < kShifts ? (1ULL << (way + 1)) - 1 : 0; }

  // From kLeast to kEnd: exact, also as a double.
  static std::uint64_t encode(int way, std::uint64_t address) {
    if (way < kShifts) return address << (way + 1);
    if (way == kDigits) return (address >> kDigitBits) << 32 | (address & ((1ULL << kDigitBits) - 1));
    const int highest = 63 - __builtin_clzll(address | 1);
    return (kExponentOfOne + static_cast<unsigned>(highest)) << kMantissaBits |
           (address << (kMantissaBits - highest) & kMantissa);
  }

  // Of a word in the range of this way.
  static std::uint64_t decode(int way, std::uint64_t word) {
    if (way < kShifts) return word >> (way + 1);
    if (way == kDigits) return (word >> 32) << kDigitBits | (word & ((1ULL << kDigitBits) - 1));
    const std::uint64_t highest = (word >> kMantissaBits) - kExponentOfOne;
    return ((word & kMantissa) | 1ULL << kMantissaBits) >> (kMantissaBits - highest);
  }

  struct Range {
    std::uint64_t least;
    std::uint64_t span;
  };

  void note_uppers(const Range& range) {
    for (std::uint64_t upper = range.least >> kMantissaBits; upper <= (range.least + range.span) >> kMantissaBits;
         ++upper)
      uppers_[upper / 64] |= 1ULL << upper % 64;
  }

  std::uint64_t least_ = ~std::uint64_t{0};
  std::uint64_t most_ = 0;
  std::uint64_t first_ = ~std::uint64_t{0};                      // of all ways
  std::uint64_t uppers_[(1 << (64 - kMantissaBits)) / 64] = {};  // of all ways: the bits from kMantissaBits on
  Range ways_[kWays] = {};
};

}  // namespace culprit
