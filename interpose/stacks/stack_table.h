// Stack -> small number, so that each distinct stack is written to the dump once, and only as long as it is needed.
//
// Two indexes: raw addresses -> stack, asked on every event whose stack is not remembered; and frames (module, offset)
// -> stack, asked when the addresses are new. The first one is emptied when a module was unloaded, because the same
// address may then mean another function; the second one sees to it that code loaded again at another address still
// finds its old stacks.
//
// A program may have ever new stacks. What nothing names any more is found by a collection (stack_collection.h), which
// marks what is needed and calls sweep(): the room of the rest is used again. Whoever gets a stack from here gets it
// marked, so that no sweep that a collection has begun takes it away.
//
// When there is no room, and nothing to be freed, a new stack is merged with others: shortened to its innermost 8, 4, 1
// or 0 frames and flagged (kStackMerged). Those are few, and have room of their own.
#pragma once

#include <cstdint>

#include "interpose/base/hash_index.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/dump/packed_space.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/stack.h"

namespace culprit {

// All zeros = empty. Lives in memory that the kernel wipes in a fork child.
class StackTable {
 public:
  // The number of this stack, written to the dump if it is new. Returns 0 when there is no room, not even for a merged
  // one. Thread-safe. `is_new`, if not null, tells whether the raw addresses had not been seen before.
  format::Ref intern(const RawStack& stack, ModuleTable& modules, DumpWriter& dump, bool* is_new);

  // The same for frames as the format has them.
  format::Ref intern_frames(const std::uint64_t* frames, int count, std::uint32_t flags, DumpWriter& dump);

  // Call after a module was unloaded: the same addresses may now mean something else. Thread-safe.
  void forget_addresses();

  // The most bytes that stacks may take in the dump; 0 = PackedSpace::kDefaultLimit. Call before the first intern().
  // `goal`: for tests, see PackedSpace.
  void set_limit(std::uint64_t limit, std::uint64_t goal = 0) { space_.set_limit(limit, goal); }

  // See PackedSpace. wants_collection() is thread-safe; the others are for who collects, who may see them a little
  // late.
  bool wants_collection() const { return space_.wants_sweep(); }
  bool is_tight() const { return space_.is_tight(); }
  bool is_overgrown() const { return space_.is_overgrown(); }

  // A collection: begin_marking() takes all marks away, mark() is called for every number that may be a stack's (others
  // are left alone), and sweep() frees what has no mark. Between the two other threads may use this. Thread-safe;
  // one collection at a time. `mark_frame(frame)` is called before, for each frame of each stack that stays; no stack
  // is handed out meanwhile.
  void begin_marking();
  bool mark(format::Ref ref) { return space_.mark(ref); }
  template <typename MarkFrame>
  void sweep(DumpWriter& dump, MarkFrame mark_frame) {
    lock_all();
    space_.for_each_marked([&](format::Ref ref) {
      const auto* record = dump.at<format::StackRecord>(ref);
      const auto* frames = reinterpret_cast<const std::uint64_t*>(record + 1);
      for (std::uint32_t i = 0; i < record->frame_count; ++i) mark_frame(frames[i]);
    });
    free_unmarked(dump);
    unlock_all();
  }

  // Bytes of the dump that stacks have.
  std::uint64_t bytes() const { return space_.bytes(); }
  std::uint64_t used_bytes() const { return space_.used_bytes(); }

  // Gives the memory back; empty afterwards. Not while other threads use this.
  void free_memory();

 private:
  static constexpr int kShards = 16;
  struct Shard {
    SpinLock lock;
    HashIndex index;
  };
  bool look_up(Shard& shard, std::uint64_t key, format::Ref* ref);
  format::Ref known_locked(std::uint64_t key);
  format::Ref store_locked(std::uint64_t key, const std::uint64_t* frames, int count, std::uint32_t flags,
                           PackedSpace::Want want, DumpWriter& dump);
  CULPRIT_COLD format::Ref merge_locked(const std::uint64_t* frames, int count, DumpWriter& dump);
  void free_unmarked(DumpWriter& dump);
  void lock_all();
  void unlock_all();

  Shard raw_[kShards];
  SpinLock frames_lock_;
  HashIndex frames_;
  PackedSpace space_;
};

}  // namespace culprit
