// Where this library itself is mapped: its frames are left out of stacks, and its symbols are never taken for another
// module's.
#pragma once

#include <cstdint>

// From the linker: first and last byte of this module, libculprit.so or a unit test.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];
extern "C" __attribute__((visibility("hidden"))) const char _end[];

namespace culprit {

inline bool in_own_module(std::uint64_t address) {
  return address >= reinterpret_cast<std::uint64_t>(__ehdr_start) && address < reinterpret_cast<std::uint64_t>(_end);
}

}  // namespace culprit
