#include "interpose/stack_memo.h"

#include "interpose/os.h"

namespace culprit {

StackMemo* StackMemo::create() {
  int error = 0;
  return static_cast<StackMemo*>(map_private(sizeof(StackMemo), &error));
}

void StackMemo::destroy() { os.unmap(this, sizeof(StackMemo)); }

void StackMemo::remember(const std::uint64_t* frame, std::uint32_t generation, format::Ref stack,
                         const StackChecks& checks) {
  if (!checks.complete || stack == 0) return;
  std::uint64_t base = reinterpret_cast<std::uint64_t>(frame);
  std::uint32_t count = static_cast<std::uint32_t>(checks.count);
  for (std::uint32_t i = 0; i < count; ++i) {
    // A stack that is not one piece (a coroutine, an alternate signal stack) or is larger than 4 GiB.
    if (checks.slots[i] < base || checks.slots[i] - base > 0xffffffffULL) return;
  }
  Entry& entry = entries_[slot_of(base, frame[1])];
  bool in_place = entry.stack != 0 && entry.count >= count;
  if (!in_place && used_ + count > kArenaWords) {
    for (Entry& any : entries_) any.stack = 0;
    used_ = 0;
  }
  if (!in_place) {
    entry.first = used_;
    used_ += count;
  }
  entry.frame = base;
  entry.return_address = frame[1];
  entry.generation = generation;
  entry.stack = stack;
  entry.count = count;
  for (std::uint32_t i = 0; i < count; ++i) {
    offsets_[entry.first + i] = static_cast<std::uint32_t>(checks.slots[i] - base);
    values_[entry.first + i] = *reinterpret_cast<const volatile std::uint64_t*>(checks.slots[i]);
  }
}

}  // namespace culprit
