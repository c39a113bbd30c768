// The memory in which the kernel of interpose/device_search/ works where the host runs it.
#pragma once

#include <cstdint>
#include <cstring>

#include "interpose/device_search/find_pointers.h"

namespace culprit {

struct HostMemory {
  static void load(std::uint64_t address, std::uint32_t lane, std::uint64_t (*words)[3]) {
    for (std::uint32_t i = 0; i < kAhead; ++i)
      std::memcpy(words[i], reinterpret_cast<const char*>(address) + (i * kWarp + lane) * kBytesAtOnce,
                  sizeof(words[i]));
  }
  static std::uint64_t load8(std::uint64_t address) {
    std::uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const void*>(address), sizeof(word));
    return word;
  }
  static std::uint64_t compare_exchange(std::uint64_t* place, std::uint64_t expected, std::uint64_t wanted) {
    const std::uint64_t old = *place;
    if (old == expected) *place = wanted;
    return old;
  }
  static std::uint64_t add(std::uint64_t* place, std::uint64_t value) {
    const std::uint64_t old = *place;
    *place += value;
    return old;
  }
};

}  // namespace culprit
