#include "interpose/causes/encoded_numbers.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/catch.h"

namespace culprit {
namespace {

constexpr std::uint64_t kFirst = 0x7f1234560200;
constexpr std::uint64_t kLast = kFirst + 11001;

std::vector<std::uint64_t> addresses_of(const EncodedNumbers& numbers, std::uint64_t word) {
  std::vector<std::uint64_t> found;
  numbers.for_each(word, [&](std::uint64_t address) { found.push_back(address); });
  return found;
}

std::uint64_t bits_of(double number) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

std::uint64_t digits_of(std::uint64_t number) { return (number >> 30) << 32 | (number & 0x3fffffff); }

}  // namespace

TEST_CASE("an address is known in each way that a language keeps a number", "[encoded-numbers]") {
  EncodedNumbers numbers;
  numbers.add(kFirst, kLast);
  numbers.finish();
  for (const std::uint64_t address : {kFirst, kFirst + 1, kFirst + 5000, kLast}) {
    for (int shift = 1; shift <= 4; ++shift) {
      for (std::uint64_t type = 0; type < std::uint64_t{1} << shift; ++type)
        CHECK(addresses_of(numbers, address << shift | type) == std::vector<std::uint64_t>{address});
    }
    CHECK(addresses_of(numbers, bits_of(static_cast<double>(address))) == std::vector<std::uint64_t>{address});
    CHECK(addresses_of(numbers, digits_of(address)) == std::vector<std::uint64_t>{address});
  }
}

TEST_CASE("other words are no address", "[encoded-numbers]") {
  EncodedNumbers numbers;
  CHECK(addresses_of(numbers, kFirst << 1).empty());
  numbers.finish();
  CHECK(addresses_of(numbers, kFirst << 1).empty());
  numbers.add(kFirst, kLast);
  numbers.finish();
  // A double that is no whole number has lower bits than the address of the same range.
  CHECK(addresses_of(numbers, bits_of(static_cast<double>(kFirst) + 0.5)).empty());
  for (const std::uint64_t word :
       {std::uint64_t{0}, std::uint64_t{1}, kFirst, kLast, (kFirst - 1) << 1, (kLast + 1) << 2, digits_of(kLast + 1),
        bits_of(static_cast<double>(kFirst - 1)), bits_of(1.0), bits_of(-static_cast<double>(kFirst)),
        ~std::uint64_t{0}, digits_of(kFirst) | std::uint64_t{1} << 31})
    CHECK(addresses_of(numbers, word).empty());
}

TEST_CASE("the ways of several ranges are found, with what lies between them", "[encoded-numbers]") {
  EncodedNumbers numbers;
  numbers.add(0x555555554000, 0x555555575000);
  numbers.add(kFirst, kLast);
  numbers.add(4096, 8192);  // small: left out
  numbers.finish();
  for (const std::uint64_t address : {std::uint64_t{0x555555554010}, kFirst}) {
    for (const std::uint64_t word : {address << 3, bits_of(static_cast<double>(address)), digits_of(address)}) {
      const std::vector<std::uint64_t> found = addresses_of(numbers, word);
      CHECK(std::count(found.begin(), found.end(), address) == 1);
    }
  }
  CHECK(addresses_of(numbers, 4096 << 1).empty());
}

}  // namespace culprit
