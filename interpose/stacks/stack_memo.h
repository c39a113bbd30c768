// Remembers, per thread, where on the stack the return addresses of a captured stack lie. The same stack is then
// recognized by reading them again: about half a nanosecond per frame instead of 400 for unwinding.
//
// A stack is looked up by the hook's frame address and return address. Its entry is a list of checks, inner to outer:
//
//     slot with the hook's return address == its value?
//     slot with frame 1's return address == its value?
//     slot with the rbp that frame 2's CFA comes from == its value?   only where a CFA comes from rbp
//     slot with frame 2's return address == its value? ...
//
// Why a hit is the same stack: a frame's CFA is a constant offset from its stack pointer or from its rbp (stacks with
// other rules are never remembered). Same return address: same function at the same place, same rule. Same stack
// pointer, and same rbp if the rule uses it: same CFA, so the next slot is at the same address. By induction all slots
// are the true ones. For the same reason a slot that is read lies inside the stack, as long as reading stops at the
// first difference; so eight slots are compared at a time only if they share a page. Without the rbp checks 4 of 17
// hits in functions with alloca were wrong.
//
// Many stacks have the same innermost frame, e.g. of an allocator. At the first difference from one stack the search
// continues with another one, looked up by the first one's number, the place of the difference and the value found
// there: all earlier slots are known to be equal. Because programs repeat themselves, the stack that was found in the
// end is tried first at the next equal difference from the same stack.
//
// The stack that is tried before all others at a place is the one that followed the last one there the time before: a
// loop's stacks come in the same order in each round.
//
// Not thread-safe and not reentrant from signal handlers: one object per thread, behind the hook guard.
#pragma once

#include <cstdint>

#include "interpose/base/hash.h"
#include "interpose/base/placement.h"
#include "interpose/format/dump_format.h"
#include "interpose/stacks/stack.h"
#include "interpose/stacks/walk_memo.h"
#include "interpose/stacks/walked_words.h"

namespace culprit {

// The checks of one stack, as capture_stack() found them.
struct StackChecks {
  static constexpr int kMost = 2 * kMaxStackDepth + 2;
  bool complete;  // false: the slots are not enough to recognize the stack; perhaps `words` are (WalkMemo)
  int count;
  std::uint64_t slots[kMost];  // addresses
  WalkedWords words;
  // Complete or not: the stack pointer that each frame has after the return to it (see ThreadPaths).
  std::uint64_t pointers[kMaxStackDepth];
};

class StackMemo {
 public:
  // The remembered stack for this frame, if all its checks hold; 0 if none. `frame` points to the hook's saved rbp,
  // which its return address follows. `generation`: module_generation; entries of other generations are ignored. On a
  // hit `path` receives the path that was remembered with the stack; otherwise it is unchanged.
  format::Ref look_up(const std::uint64_t* frame, std::uint32_t generation, std::uint32_t* path);

  // Like look_up(), but tries only the stack that is expected at this place.
  __attribute__((always_inline)) format::Ref look_up_expected(const std::uint64_t* frame, std::uint32_t generation,
                                                              std::uint32_t* path) {
    const Block* different;
    return compare_expected(frame, generation, path, &different);
  }

  // For stacks that only WalkMemo recognizes. Call its two functions for looking up after look_up() returned 0.
  WalkMemo& walks() { return walks_; }

  // Call after these three functions returned 0, with the same stack.
  void remember(const std::uint64_t* frame, std::uint32_t generation, format::Ref stack, std::uint32_t path,
                const StackChecks& checks);

  // Calls visit(stack) for every stack that look_up() may still return. For other threads than the owner: see
  // stack_collection.h.
  template <typename Visit>
  void for_each_stack(Visit visit) const {
    for (const Entry& entry : entries_) visit(__atomic_load_n(&entry.stack, __ATOMIC_ACQUIRE));
    for (const Recent& entry : recent_) visit(__atomic_load_n(&entry.stack, __ATOMIC_ACQUIRE));
    walks_.for_each_stack(visit);
  }

  // Forgets all stacks: the paths were renumbered.
  void forget_all() {
    forget_slots();
    walks_.forget_all();
  }
  // Forgets all stacks, when another thread begins to use this.
  void change_thread() {
    forget_slots();
    walks_.change_thread();
  }

  // Whether few stacks were remembered since the last forget_all().
  bool used_little() const { return used_ <= kArenaBlocks / 32 && walks_.used_little(); }

  // Chooses the comparison of slots for all objects: eight with one instruction, or two at a time. Returns false,
  // without a change, if the processor lacks the instruction.
  static bool compare_eight(bool eight);
  // Measures which comparison is faster on this processor, and chooses it. Takes some microseconds.
  static void choose_comparison();

 private:
  void forget_slots();
  static constexpr std::uint32_t kEntries = 1024;          // a power of two
  static constexpr std::uint32_t kWays = 8;                // entries per key: conflict misses are rare
  static constexpr std::uint32_t kArenaBlocks = 5 * 1024;  // checks of about 700 stacks of 40 frames
  static constexpr int kMostSteps = 64;
  struct Entry {
    std::uint64_t key;
    std::uint64_t frame;
    std::uint32_t generation;
    format::Ref stack;     // 0 = free
    std::uint32_t number;  // unique among all entries ever
    std::uint32_t first;   // into the arena
    std::uint32_t count;   // of blocks
    std::uint32_t path;    // see ThreadPaths
  };
  // Eight checks whose slots lie in one page: if the first may be read, so may the others. A block with fewer checks
  // repeats its last one.
  static constexpr int kBlock = 8;
  struct Block {
    alignas(16) std::uint64_t values[kBlock];
    std::uint32_t offsets[kBlock];  // slot address minus frame address
  };
  // The last lookup that failed: its key, and the block and the value that led to it.
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
  // A word of the program's stack, of unknown type. (Not volatile, which costs one more instruction per word.)
  typedef std::uint64_t __attribute__((may_alias)) StackWord;
  static std::uint64_t read(std::uint64_t slot) { return *reinterpret_cast<const StackWord*>(slot); }

  // find(): the entry with this key, nullptr if none. place_for(): the entry to use for a new stack with this key.
  const Entry* find(std::uint64_t key, std::uint64_t frame, std::uint32_t generation) const;
  Entry* place_for(std::uint64_t key, std::uint32_t generation);
  // The first block in which a check fails; `end` if there is none. Eight at a time take half as long as two at a time
  // on Intel's processors since 2023, and half as long again on AMD's. compare_eight() chooses first_difference().
  using Comparison = const Block* (*)(std::uint64_t base, const Block* block, const Block* end);
  static const Block* first_difference_of_pairs(std::uint64_t base, const Block* block, const Block* end);
  static const Block* first_difference_of_eights(std::uint64_t base, const Block* block, const Block* end);
  CULPRIT_OWN static Comparison first_difference;
  struct Recent;
  // `different` receives the block in which the stack that is expected at this place differs, nullptr if there is none.
  format::Ref compare_expected(const std::uint64_t* frame, std::uint32_t generation, std::uint32_t* path,
                               const Block** different);
  // This entry was seen at its place, and not expected there.
  void note_seen(const std::uint64_t* frame, const Entry& entry);
  // This entry was seen at this place: the one that followed it the time before is expected next, or itself.
  void expect_next(Recent* place, std::uint16_t seen);
  // The stack that was expected at this place was seen.
  CULPRIT_HOT __attribute__((noinline)) void advance(Recent* place);
  // The first check that fails, in a block that has one.
  static std::uint32_t place_in(const Block& different, std::uint64_t base) {
    std::uint32_t place = 0;
    while (read(base + different.offsets[place]) == different.values[place]) ++place;
    return place;
  }
  // look_up() when the stack that is expected at this place differs in this block; nullptr: there is no such stack.
  CULPRIT_HOT __attribute__((noinline)) format::Ref look_up_next(const std::uint64_t* frame, std::uint32_t generation,
                                                                 std::uint32_t* path, const Block* different);
  // look_up() from the beginning, through all the stacks with this innermost frame. Returns the matching entry, or
  // nullptr and describes the miss in `miss_`.
  CULPRIT_COLD const Entry* search(const std::uint64_t* frame, std::uint32_t generation);

  Entry entries_[kEntries];
  // The entry that is expected next for a frame and return address, in half a cache line.
  struct alignas(32) Recent {
    std::uint64_t frame;  // 0 = none
    std::uint32_t generation;
    format::Ref stack;
    std::uint32_t begin;  // of its blocks, in bytes from `blocks_`
    std::uint32_t end;
    std::uint32_t path;
    std::uint16_t expected;  // the entry
    std::uint16_t change;    // of the expected one to the last one that was seen: 0 = the same, else both XORed
    std::uint16_t seen() const { return expected ^ change; }
  };
  static_assert(sizeof(Recent) == 32 && kEntries <= 1 << 16);
  Recent recent_[kEntries];
  // The entry that followed each entry at its place. Only a guess: the entry may be another stack's by now.
  std::uint16_t followers_[kEntries];
  // The entry that matched after a given difference from the most recent stack.
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
  // The parts of `entries_` and `recent_` that are in use, a bit for each 64th: a short thread's are soon forgotten.
  static constexpr std::uint32_t kPart = kEntries / 64;
  std::uint64_t used_entries_;
  std::uint64_t used_recent_;
  std::uint32_t used_;
  std::uint32_t numbers_;
  Block blocks_[kArenaBlocks];
  WalkMemo walks_;
};

__attribute__((always_inline)) inline format::Ref StackMemo::compare_expected(const std::uint64_t* frame,
                                                                              std::uint32_t generation,
                                                                              std::uint32_t* path,
                                                                              const Block** different) {
  std::uint64_t base = reinterpret_cast<std::uint64_t>(frame);
  Recent& entry = recent_[recent_slot(frame)];
  *different = nullptr;
  if (CULPRIT_UNLIKELY(entry.frame != base) || CULPRIT_UNLIKELY(entry.generation != generation)) return 0;
  const Block* end = block_at(entry.end);
  *different = first_difference(base, block_at(entry.begin), end);
  if (CULPRIT_UNLIKELY(*different != end)) return 0;
  *path = entry.path;
  const format::Ref stack = entry.stack;
  if (entry.change != 0) advance(&entry);
  return stack;
}

inline format::Ref StackMemo::look_up(const std::uint64_t* frame, std::uint32_t generation, std::uint32_t* path) {
  const Block* different;
  format::Ref stack = compare_expected(frame, generation, path, &different);
  return CULPRIT_LIKELY(stack != 0) ? stack : look_up_next(frame, generation, path, different);
}

}  // namespace culprit
