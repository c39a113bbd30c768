// Words of libc, of the loader and of the C++ library, and what they can never be: a search for lost memory takes every
// word for a pointer, at any address, and these libraries keep none of the program's like that.
//
// Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/system/written_memory.h"

namespace culprit {

class DriverThreads;
class MemoryMap;

class LibraryWords {
 public:
  // `threads`, `map`: outlive this.
  void open(const DriverThreads& threads, const MemoryMap& map);

  // Whether the word at `where` is made of parts of two others: it is not aligned, and lies in data of these libraries.
  // Only packed structures have such pointers.
  bool is_of_parts(std::uint64_t where) const;

  // Whether the word at `where`, which has the value `address`, is the begin of a module or of a stack, and lies in
  // what the loader knows about that module, on that stack, among registers of threads, or in what libc knows about a
  // thread: it is no pointer to the end of memory before it.
  bool is_begin(std::uint64_t address, std::uint64_t where) const;

 private:
  // Without room the others are searched as the program's data are.
  static constexpr std::uint64_t kMost = 64;

  const DriverThreads* threads_ = nullptr;
  const MemoryMap* map_ = nullptr;
  MemoryRange data_[kMost];
  std::uint64_t count_ = 0;
};

}  // namespace culprit
