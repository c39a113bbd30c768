// Where the calling thread's thread-local variables of a module are.
#pragma once

#include <link.h>

#include <cstdint>

#include "interpose/system/written_memory.h"

namespace culprit {

// `range`, empty if it is not known, or the thread has not used one of them yet. `module`: an address of the module's
// thread-local segment.
struct ThreadLocalData {
  MemoryRange range;
  std::uint64_t module;

  bool has(std::uint64_t address) const { return address >= range.begin && address < range.end; }
};

struct ThreadLocals {
  static constexpr int kCapacity = 512;
  int count;
  ThreadLocalData list[kCapacity];

  // nullptr: the address is in none of them.
  const ThreadLocalData* find(std::uint64_t address) const {
    for (int i = 0; i < count; ++i) {
      if (list[i].has(address)) return &list[i];
    }
    return nullptr;
  }
};

// Of a module of loader_modules.h; `is_program`: the first one. A library's are found by the references to them that
// the loader has resolved: a library that refers to each in its own way (TLS descriptors) is not understood. glibc on
// x86-64 only. Async-signal-safe.
ThreadLocalData thread_local_data_of(const struct dl_phdr_info& module, bool is_program);

}  // namespace culprit
