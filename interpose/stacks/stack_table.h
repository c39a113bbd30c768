// Stack -> Ref: each distinct stack is written to the dump once, and kept only as long as it is needed.
//
// Two indexes: raw addresses -> stack, searched on every event whose stack is not in the memo; and frames (module,
// offset) -> stack, searched when the addresses are new. The first one is emptied when a module was unloaded, because
// the same address may then mean another function; the second one finds the old stacks of code that was loaded again at
// another address.
//
// A program may have ever new stacks. A collection (stack_collection.h) marks the stacks that are needed and calls
// sweep(), which frees the room of the others for reuse. A stack that is returned from here gets a mark, so that a
// collection in progress does not free it.
//
// When there is no room left, a new stack is merged with others: shortened to its innermost 8, 4, 1 or 0 frames and
// flagged (kStackMerged). Merged stacks are few, and have room of their own.
#pragma once

#include <cstdint>

#include "interpose/dump/dump_writer.h"
#include "interpose/dump/packed_space.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/stack.h"
#include "interpose/system/hash_index.h"

namespace culprit {

class StackTable {
 public:
  // The number of this stack, written to the dump if it is new. Returns 0 when there is no room even for a merged
  // stack. Thread-safe. `is_new`, if not null, tells whether the raw addresses had not been seen before.
  format::Ref intern(const RawStack& stack, ModuleTable& modules, DumpWriter& dump, bool* is_new);

  // intern() for frames in the dump's format.
  format::Ref intern_frames(const std::uint64_t* frames, int count, std::uint32_t flags, DumpWriter& dump);

  // Call after a module was unloaded: the same addresses may now mean something else. Thread-safe.
  void forget_addresses();

  // The most bytes that stacks may take in the dump; 0 = PackedSpace::kDefaultLimit. Call before the first intern().
  // `goal`: for tests, see PackedSpace.
  void set_limit(std::uint64_t limit, std::uint64_t goal = 0) { space_.set_limit(limit, goal); }

  // See PackedSpace. wants_collection() is thread-safe; the others are for the collection and may be slightly stale.
  bool wants_collection() const { return space_.wants_sweep(); }
  bool is_tight() const { return space_.is_tight(); }
  bool is_overgrown() const { return space_.is_overgrown(); }

  // A collection: begin_marking() clears all marks, mark() is called for every number that may be a stack's (other
  // numbers are ignored), and sweep() frees the stacks without a mark. Other threads may use the table between these
  // calls. Thread-safe; one collection at a time. sweep() first calls `mark_frame(frame)` for each frame of each stack
  // that stays; intern() waits meanwhile.
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

  // Bytes of the dump that stacks take.
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
