// The memory of this process that the program may use without a pointer to it: data of modules, stacks, thread-local
// blocks, and whatever else is mapped and is neither malloc's nor the GPU's. A search for lost memory begins there.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/causes/gpu_blocks.h"
#include "interpose/causes/heap_blocks.h"
#include "interpose/system/written_memory.h"

namespace culprit {

class MemoryMap;

struct RootRange {
  std::uint64_t begin;
  std::uint64_t end;
  bool shared;    // others may write it, and the kernel does not say which pages have data
  bool readable;  // otherwise it must have no written pages
};

class RootRanges {
 public:
  // Divides the mappings into chunks of malloc, for `blocks`, and roots. Left out: code and constants that never
  // changed, the stack below `stack_pointer`, memory of this library and of `gpu`, and the data of the driver and of
  // the CUDA runtime, which lead to the program's memory through stale pointers. Returns false without memory, or if
  // the heap is not understood.
  bool collect(const MemoryMap& map, std::uint64_t stack_pointer, const GpuBlocks& gpu, HeapBlocks* blocks);
  // Before collect(), twice at most: memory to be left out, too. The list is kept.
  void leave_out(const MemoryRange* list, std::uint64_t count) {
    left_out_[left_out_[0].count == 0 ? 0 : 1] = {list, count};
  }
  void close();

  const RootRange* begin() const { return list_; }
  const RootRange* end() const { return list_ + count_; }

 private:
  static constexpr std::uint64_t kMost = 1 << 19;
  struct Skip {
    std::uint64_t begin;
    std::uint64_t end;
  };

  struct LeftOut {
    const MemoryRange* list;
    std::uint64_t count;
  };

  static Skip first_arena();
  bool collect_skips(const GpuBlocks& gpu);
  void join_skips();
  const Skip* skip_behind(std::uint64_t address) const;
  void add_private(std::uint64_t begin, std::uint64_t end, HeapBlocks* blocks);
  void add(const RootRange& range);

  RootRange* list_ = nullptr;
  std::uint64_t count_ = 0;
  Skip* skips_ = nullptr;  // sorted
  std::uint64_t skip_bytes_ = 0;
  std::uint64_t skip_count_ = 0;
  LeftOut left_out_[2] = {};
  bool full_ = false;
};

}  // namespace culprit
