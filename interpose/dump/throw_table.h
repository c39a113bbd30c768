// The table of throws that abandoned allocations, in the dump. Equal throws (type, stacks, flags) share a record. Fixed
// size.
#pragma once

#include "interpose/dump/dump_writer.h"
#include "interpose/system/hash_index.h"

namespace culprit {

// Every function is thread-safe.
class ThrowTable {
 public:
  struct Throw {
    const char* type;  // mangled, nullptr = not known
    format::Ref stack;
    format::Ref catch_stack;
    std::uint32_t thread;
    std::uint8_t flags;  // format::ThrowFlags
    std::uint64_t time_ns;
  };

  // Counts a throw that has a record. Returns the record, 0 if there is none.
  format::Ref count(const Throw& thrown, DumpWriter& dump);

  // Counts a throw, and records it with `what` (nullptr = none) if it is new. Returns 0 when there is no room.
  format::Ref add(const Throw& thrown, const char* what, DumpWriter& dump);

  // Gives the index's memory back; empty afterwards. Not while other threads use this.
  void free_memory() { index_.free_memory(); }

 private:
  static constexpr std::uint32_t kCapacity = 1024;
  static std::uint64_t key_of(const Throw& thrown);
  format::Ref count_locked(std::uint64_t key, const Throw& thrown, DumpWriter& dump);

  SpinLock lock_;
  HashIndex index_;
};

}  // namespace culprit
