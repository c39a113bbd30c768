// The filter passes each address of its ranges, wherever it lies in memory.
#include "interpose/causes/address_filter.h"

#include <memory>
#include <random>
#include <set>
#include <vector>

#include "tests/catch.h"

using namespace culprit;

namespace {

std::set<std::uint64_t> passed(const AddressFilter& filter, const std::vector<unsigned char>& memory) {
  std::set<std::uint64_t> offsets;
  filter.for_each(memory.data(), memory.size(), [&](std::uint64_t offset) { offsets.insert(offset); });
  return offsets;
}

}  // namespace

TEST_CASE("an address passes the filter at each offset, with any byte above it", "[filter]") {
  const auto filter = std::make_unique<AddressFilter>();
  filter->add(0x7f1234560000, 0x7f1334560000);
  for (const std::uint64_t address : {0x7f1234560000ULL, 0x7f1334560000ULL, 0xab007f1234560008ULL}) {
    for (std::size_t offset = 0; offset <= 56; ++offset) {
      std::vector<unsigned char> memory(64);
      std::memcpy(memory.data() + offset, &address, sizeof(address));
      INFO(std::hex << address << std::dec << " at " << offset);
      CHECK(passed(*filter, memory).count(offset) == 1);
    }
  }
}

TEST_CASE("the filter passes the words that a plain look passes", "[filter]") {
  std::mt19937_64 random(3);
  for (const bool low : {false, true}) {
    const auto filter = std::make_unique<AddressFilter>();
    filter->add(0x7f0000000000, 0x7f0100000000);
    if (low) filter->add(0x400000, 0x500000);
    for (int i = 0; i < 300; ++i) {
      std::vector<unsigned char> memory(8 + random() % 100);
      for (unsigned char& byte : memory) byte = random() % 4 != 0 ? 0 : static_cast<unsigned char>(random());
      for (int j = 0; j < 3 && i % 2 == 0; ++j) memory[random() % memory.size()] = 0x7f;
      std::set<std::uint64_t> plain;
      for (std::size_t offset = 0; offset + 8 <= memory.size(); ++offset) {
        std::uint64_t word = 0;
        std::memcpy(&word, memory.data() + offset, sizeof(word));
        const std::uint64_t upper = word >> 32 & 0xffff;
        if (upper == 0x7f00 || upper == 0x7f01 || (low && upper == 0)) plain.insert(offset);
      }
      CHECK(passed(*filter, memory) == plain);
    }
  }
}
