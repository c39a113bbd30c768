// Stack -> small number, so that each distinct stack is written to the dump once.
//
// Two indexes: raw addresses -> stack, asked on every event; and frames (module, offset) -> stack, asked when the
// addresses are new. The first one is emptied when a module was unloaded, because the same address may then mean
// another function; the second one sees to it that code loaded again at another address still finds its old stacks.
#pragma once

#include <cstdint>

#include "interpose/dump_writer.h"
#include "interpose/hash_index.h"
#include "interpose/modules.h"
#include "interpose/stack.h"

namespace culprit {

// All zeros = empty. Lives in memory that the kernel wipes in a fork child.
class StackTable {
 public:
  // The number of this stack, written to the dump if it is new. Returns 0 when there is no room. Thread-safe.
  // `is_new`, if not null, tells whether the raw addresses had not been seen before.
  format::Ref intern(const RawStack& stack, ModuleTable& modules, DumpWriter& dump, bool* is_new);

  // The same for frames as the format has them.
  format::Ref intern_frames(const std::uint64_t* frames, int count, std::uint32_t flags, DumpWriter& dump);

  // Call after a module was unloaded: the same addresses may now mean something else. Thread-safe.
  void forget_addresses();

  // Gives the memory back; empty afterwards. Not while other threads use this.
  void free_memory();

 private:
  static constexpr int kShards = 16;
  struct Shard {
    SpinLock lock;
    HashIndex index;
  };
  static bool look_up(Shard& shard, std::uint64_t key, format::Ref* ref);

  Shard raw_[kShards];
  SpinLock frames_lock_;
  HashIndex frames_;
};

}  // namespace culprit
