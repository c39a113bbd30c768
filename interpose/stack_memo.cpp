#include "interpose/stack_memo.h"

namespace culprit {

void StackMemo::forget_all() {
  for (Entry& any : entries_) any.stack = 0;
  used_ = 0;
}

void StackMemo::remember(const std::uint64_t* frame, std::uint32_t generation, format::Ref stack, std::uint32_t path,
                         const StackChecks& checks) {
  if (!checks.complete || stack == 0) return;
  std::uint64_t base = reinterpret_cast<std::uint64_t>(frame);
  constexpr std::uint64_t kSmallestPage = 4096;
  Block blocks[StackChecks::kMost];
  std::uint32_t count = 0;
  for (int i = 0; i < checks.count;) {
    Block& block = blocks[count++];
    std::uint64_t page = checks.slots[i] / kSmallestPage;
    for (int used = 0; used < kBlock; ++used) {
      bool more = used == 0 || (i < checks.count && checks.slots[i] / kSmallestPage == page);
      if (!more) {
        block.offsets[used] = block.offsets[used - 1];
        block.values[used] = block.values[used - 1];
        continue;
      }
      std::uint64_t slot = checks.slots[i++];
      // A stack that is not one piece (a coroutine, an alternate signal stack) or is larger than 4 GiB.
      if (slot < base || slot - base > 0xffffffffULL) return;
      block.offsets[used] = static_cast<std::uint32_t>(slot - base);
      block.values[used] = *reinterpret_cast<const volatile std::uint64_t*>(slot);
    }
  }
  if (count > kArenaBlocks) return;
  Entry& entry = entries_[slot_of(base, frame[1])];
  bool in_place = entry.stack != 0 && entry.count >= count;
  if (!in_place && used_ + count > kArenaBlocks) {
    forget_all();
  }
  if (!in_place) {
    entry.first = used_;
    used_ += count;
  }
  entry.frame = base;
  entry.return_address = frame[1];
  entry.generation = generation;
  entry.stack = stack;
  entry.path = path;
  entry.count = count;
  for (std::uint32_t i = 0; i < count; ++i) blocks_[entry.first + i] = blocks[i];
}

}  // namespace culprit
