// Where the program has the pointer to the last allocation of a line whose others are all lost: then a variable was
// assigned anew without a free. Looked for in the frames of functions that run, and in a frozen copy of the process in
// the data of modules as well (at exit that is the task of holder_search.h).
//
//     notes of the search           frames of the threads
//     (which block, where)   -->    where - CFA = -24 in the third frame from outside: a variable of main()
//
// A local variable counts only if the function that has it runs since before the allocation: its frame, and all outer
// ones, are in the allocation's stack. In the frames of other functions lie copies.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/causes/gpu_blocks.h"
#include "interpose/format/dump_causes.h"
#include "interpose/stacks/stack.h"
#include "interpose/system/written_memory.h"

namespace culprit {

struct Process;

class LastHolders {
 public:
  explicit LastHolders(Process& process) : process_(process) {}

  // Walks the stacks: those of stopped threads, and, at exit, the calling thread's. `in_copy`: in a frozen copy of the
  // process. `words`: what the command wrote behind the number of stacks' ranges and these (scan_state.h); nullptr: no
  // thread was stopped. Without memory nothing is found.
  void open(bool in_copy, const std::uint64_t* words, std::uint64_t count);
  void close();

  // A root has a pointer to the beginning of this block.
  void note(std::uint32_t number, std::uint64_t where);

  // Calls visit(LastHolderRecord) for the blocks that are the only ones of their stacks that are not lost. A variable
  // of a function is left out if a place beside the frames has the pointer, too. is_lost(number); is_elsewhere(number):
  // whether anything but a root refers to the block.
  template <typename IsLost, typename IsElsewhere, typename Visit>
  void for_each(const GpuBlocks& gpu, IsLost is_lost, IsElsewhere is_elsewhere, Visit visit) {
    if (notes_ == nullptr || is_full_) return;
    if (!open_lines(gpu.size())) return;
    for (std::uint32_t i = 0; i < gpu.size(); ++i) {
      if (is_lost(i)) add_lost(gpu[i]);
    }
    sort_lines();
    for (std::uint32_t i = 0; i < gpu.size(); ++i) {
      if (!is_lost(i)) add_left(gpu[i], i);
    }
    sort_notes();
    for (std::uint32_t i = 0; i < line_count_ && looked_at_ < kMostLookedAt; ++i) {
      if (lines_[i].left != 1) continue;
      const std::uint32_t number = lines_[i].last;
      visit_places(gpu[number], number, is_elsewhere(number), visit);
    }
  }

 private:
  static constexpr std::uint64_t kMostNotes = 1 << 16;
  static constexpr int kMostFrames = 1 << 15;
  static constexpr std::uint64_t kMostLookedAt = 4096;  // each takes a look at all frames

  struct Note {
    std::uint64_t where;
    std::uint32_t block;
  };
  struct Thread {
    std::uint32_t number;  // the kernel's
    int first;             // of its frames
    int count;
  };
  // The allocations of one stack.
  struct Line {
    format::Ref stack;
    std::uint32_t left;  // that are not lost
    std::uint32_t last;  // one of them
  };
  enum class Place { kFrame, kCopy, kData, kElsewhere };

  void walk(std::uint32_t number, ucontext_t* registers);
  bool open_lines(std::uint64_t count);
  void add_lost(const GpuBlock& block);
  void sort_lines();
  void sort_notes();
  const Note* first_note(std::uint32_t block) const;
  void add_left(const GpuBlock& block, std::uint32_t number);
  format::Ref stack_of(const GpuBlock& block) const;
  // Fills in place, offset and depth.
  Place place_of(std::uint64_t where, const GpuBlock& block, format::LastHolderRecord* found);
  const Thread* find_frame_at(std::uint64_t where, int* frame) const;
  bool is_in_stack_of(const GpuBlock& block, const Thread& thread, int frame, std::uint32_t* depth) const;

  template <typename Visit>
  void visit_places(const GpuBlock& block, std::uint32_t number, bool is_elsewhere, Visit visit) {
    format::LastHolderRecord found = {};
    const Note* first = first_note(number);
    const Note* end = notes_ + note_count_;
    // First for all places whether one is not understood, then the others.
    for (const Note* note = first; note != end && note->block == number; ++note, ++looked_at_)
      is_elsewhere = is_elsewhere || place_of(note->where, block, &found) > Place::kCopy;
    for (const Note* note = first; note != end && note->block == number; ++note) {
      found = {};
      const Place place = place_of(note->where, block, &found);
      if (place != Place::kData && (place != Place::kFrame || is_elsewhere)) continue;
      found.allocation = block.allocation;
      found.state = block.state;
      visit(found);
    }
  }

  Process& process_;
  bool in_copy_ = false;
  MemoryRange registers_ = {};
  Note* notes_ = nullptr;
  std::uint64_t note_count_ = 0;
  std::uint64_t looked_at_ = 0;
  bool is_full_ = false;
  WalkedFrame* frames_ = nullptr;
  int frame_count_ = 0;
  Thread* threads_ = nullptr;
  std::uint64_t threads_bytes_ = 0;
  std::uint32_t thread_count_ = 0;
  Line* lines_ = nullptr;
  std::uint64_t lines_bytes_ = 0;
  std::uint32_t line_count_ = 0;
};

}  // namespace culprit
