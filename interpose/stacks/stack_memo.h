// Remembers, per thread, where on the stack the return addresses of a captured stack lie, so that the same stack is
// known again by re-reading them: about half a nanosecond a frame instead of 400 for unwinding it.
//
// A stack is looked up by the hook's frame address and return address. It holds a list of checks, inner to outer:
//
//     slot with the hook's return address == its value?
//     slot with frame 1's return address == its value?
//     slot with the rbp that frame 2's CFA comes from == its value?   only where a CFA comes from rbp
//     slot with frame 2's return address == its value? ...
//
// Why a hit is the same stack: a frame's CFA is a constant offset from its stack pointer or from its rbp (anything else
// is never remembered). Same return address: same function at the same place, same rule. Same stack pointer, and same
// rbp where the rule uses it: same CFA, so the next slot is where it was. By induction all slots are the true ones; for
// the same reason no slot that is read can lie outside the stack, as long as none is read beyond the first difference;
// so eight are compared at a time only where they share a page. Without the rbp checks this was wrong 4 times in 17
// hits in functions with alloca.
//
// Many stacks have the same innermost frame: an allocator called from everywhere. At the first difference from one
// stack the search goes on at another one, looked up by the first one's number, the place of the difference and the
// value found there: what comes before is known to be equal. And because programs repeat themselves, the stack that was
// found in the end is tried first when the same difference from the same stack comes again.
//
// Not thread-safe, and not to be entered from a signal handler that interrupted it: one object a thread, behind the
// guard.
#pragma once

#include <cstdint>

#include "interpose/base/hash.h"
#include "interpose/base/placement.h"
#include "interpose/format/dump_format.h"
#include "interpose/stacks/stack.h"

namespace culprit {

// The checks of one stack, as capture_stack() found them.
struct StackChecks {
  static constexpr int kMost = 2 * kMaxStackDepth + 2;
  bool complete;  // false: something in this stack must not be remembered
  int count;
  std::uint64_t slots[kMost];  // addresses
  // Complete or not: the stack pointer that each frame has after the return to it (see ThreadPaths).
  std::uint64_t pointers[kMaxStackDepth];
};

// All zeros = empty.
class StackMemo {
 public:
  // The stack that was remembered for this frame, if all its checks hold; 0 if none. `frame` points to the hook's saved
  // rbp, its return address lies behind it. `generation`: of the loaded modules, when remembered. `path` receives the
  // number that was remembered with it, and is left alone otherwise.
  format::Ref look_up(const std::uint64_t* frame, std::uint32_t generation, std::uint32_t* path);

  // The same, but looks at nothing but the stack that came last from this place.
  __attribute__((always_inline)) format::Ref look_up_last(const std::uint64_t* frame, std::uint32_t generation,
                                                          std::uint32_t* path) const {
    const Block* different;
    return compare_last(frame, generation, path, &different);
  }

  // Call after look_up() found nothing, with the stack as it was then.
  void remember(const std::uint64_t* frame, std::uint32_t generation, format::Ref stack, std::uint32_t path,
                const StackChecks& checks);

  // Calls visit(stack) for every stack that look_up() may still return. For other threads than the owner: see
  // stack_collection.h.
  template <typename Visit>
  void for_each_stack(Visit visit) const {
    for (const Entry& entry : entries_) visit(__atomic_load_n(&entry.stack, __ATOMIC_ACQUIRE));
    for (const Recent& entry : recent_) visit(__atomic_load_n(&entry.stack, __ATOMIC_ACQUIRE));
  }

  // The paths' numbers mean nothing any more.
  void forget_all();

  // How slots are compared from now on, in all objects: eight with one instruction, where the processor has it (else
  // false is returned and nothing changes), or two at a time.
  static bool compare_eight(bool eight);
  // Measures which of the two is faster here, and takes that: some microseconds.
  static void choose_comparison();

 private:
  static constexpr std::uint32_t kEntries = 1024;  // a power of two
  static constexpr std::uint32_t kWays = 8;        // entries that a key may lie in: few stacks push each other out
  static constexpr std::uint32_t kArenaBlocks = 5 * 1024;  // checks of about 700 stacks of 40 frames
  static constexpr int kMostSteps = 64;
  struct Entry {
    std::uint64_t key;
    std::uint64_t frame;
    std::uint32_t generation;
    format::Ref stack;     // 0 = free
    std::uint32_t number;  // no other entry ever had it
    std::uint32_t first;   // into the arena
    std::uint32_t count;   // of blocks
    std::uint32_t path;    // see ThreadPaths
  };
  // Eight checks whose slots lie in one page: if the first may be read, so may the others. A block with fewer repeats
  // its last one.
  static constexpr int kBlock = 8;
  struct Block {
    alignas(16) std::uint64_t values[kBlock];
    std::uint32_t offsets[kBlock];  // slot address minus frame address
  };
  // Where look_up() found nothing: the key, and the block and the value that led to it.
  struct Miss {
    std::uint64_t key;
    std::uint64_t value;
    std::uint32_t block;
    std::uint32_t place;  // in the block
  };
  static std::uint64_t key_of(std::uint64_t place, std::uint64_t value) {
    return quick_hash(place) ^ value * 0xff51afd7ed558ccdULL;
  }
  static std::uint64_t first_key(std::uint64_t frame, std::uint64_t return_address) {
    return key_of(frame >> 4, return_address);
  }
  static std::uint64_t next_key(const Entry& entry, const Miss& miss) {
    return key_of(std::uint64_t{entry.number} << 16 ^ miss.block << 3 ^ miss.place, miss.value);
  }
  static std::uint32_t slot_of(std::uint64_t key) { return static_cast<std::uint32_t>(key >> 32) & (kEntries - 1); }
  // A word of somebody else's: of whatever type. (Not volatile, which costs an instruction each.)
  typedef std::uint64_t __attribute__((may_alias)) StackWord;
  static std::uint64_t read(std::uint64_t slot) { return *reinterpret_cast<const StackWord*>(slot); }

  // The entry with this key, nullptr if there is none; the one that a new stack with this key takes.
  const Entry* find(std::uint64_t key, std::uint64_t frame, std::uint32_t generation) const;
  Entry* place_for(std::uint64_t key, std::uint32_t generation);
  // The first block in which not all checks hold; `end` if there is none. Eight at a time take half as long as two at a
  // time on Intel's processors since 2023, and half as long again on AMD's: first_difference() is what compare_eight()
  // chose.
  using Comparison = const Block* (*)(std::uint64_t base, const Block* block, const Block* end);
  static const Block* first_difference_of_pairs(std::uint64_t base, const Block* block, const Block* end);
  static const Block* first_difference_of_eights(std::uint64_t base, const Block* block, const Block* end);
  CULPRIT_OWN static Comparison first_difference;
  // `different` receives the block in which the last stack from this place differs, nullptr if there is none.
  format::Ref compare_last(const std::uint64_t* frame, std::uint32_t generation, std::uint32_t* path,
                           const Block** different) const;
  void make_recent(const std::uint64_t* frame, const Entry& entry);
  // The first check that does not hold, in a block in which there is one.
  static std::uint32_t place_in(const Block& different, std::uint64_t base) {
    std::uint32_t place = 0;
    while (read(base + different.offsets[place]) == different.values[place]) ++place;
    return place;
  }
  // look_up() when the last stack from this place differs in this block; nullptr: there is none.
  CULPRIT_HOT __attribute__((noinline)) format::Ref look_up_next(const std::uint64_t* frame, std::uint32_t generation,
                                                                 std::uint32_t* path, const Block* different);
  // look_up() from the beginning, through all the stacks with this innermost frame. Returns the entry, nullptr if none
  // is right; what is then missed is in `miss_`.
  CULPRIT_COLD const Entry* search(const std::uint64_t* frame, std::uint32_t generation);

  Entry entries_[kEntries];
  // The entry that was the right one last time for a frame and return address, in half a cache line.
  struct alignas(32) Recent {
    std::uint64_t frame;  // 0 = none
    std::uint32_t generation;
    format::Ref stack;
    std::uint32_t begin;  // of its blocks, in bytes from `blocks_`
    std::uint32_t end;
    std::uint32_t path;
  };
  Recent recent_[kEntries];
  // Which entry was the right one where the last stack differed so.
  struct Next {
    std::uint64_t key;
    std::uint32_t entry;
    std::uint32_t number;  // of the entry
  };
  Next next_[kEntries];
  static std::uint32_t recent_slot(const std::uint64_t* frame) {
    return static_cast<std::uint32_t>(quick_hash((reinterpret_cast<std::uint64_t>(frame) >> 4) + frame[1]) >> 54);
  }
  static_assert(kEntries == 1 << 10);
  const Block* block_at(std::uint32_t offset) const {
    return reinterpret_cast<const Block*>(reinterpret_cast<const char*>(blocks_) + offset);
  }
  Miss miss_;
  std::uint32_t used_;
  std::uint32_t numbers_;
  Block blocks_[kArenaBlocks];
};

__attribute__((always_inline)) inline format::Ref StackMemo::compare_last(const std::uint64_t* frame,
                                                                          std::uint32_t generation, std::uint32_t* path,
                                                                          const Block** different) const {
  std::uint64_t base = reinterpret_cast<std::uint64_t>(frame);
  const Recent& entry = recent_[recent_slot(frame)];
  *different = nullptr;
  if (CULPRIT_UNLIKELY(entry.frame != base) || CULPRIT_UNLIKELY(entry.generation != generation)) return 0;
  const Block* end = block_at(entry.end);
  *different = first_difference(base, block_at(entry.begin), end);
  if (CULPRIT_UNLIKELY(*different != end)) return 0;
  *path = entry.path;
  return entry.stack;
}

inline format::Ref StackMemo::look_up(const std::uint64_t* frame, std::uint32_t generation, std::uint32_t* path) {
  const Block* different;
  format::Ref stack = compare_last(frame, generation, path, &different);
  return CULPRIT_LIKELY(stack != 0) ? stack : look_up_next(frame, generation, path, different);
}

}  // namespace culprit
