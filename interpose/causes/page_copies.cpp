#include "interpose/causes/page_copies.h"

#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

namespace culprit {

bool PageCopies::open() {
  int error = 0;
  copies_ = static_cast<std::uint64_t*>(map_private(kBytes, &error));
  if (copies_ == nullptr) return false;
  slots_ = reinterpret_cast<Slot*>(copies_ + kSlots * kBlock / sizeof(std::uint64_t));
  return true;
}

void PageCopies::close() {
  if (copies_ != nullptr) unmap_private(copies_, kBytes);
  copies_ = nullptr;
}

const std::uint64_t* PageCopies::read(std::uint64_t address) {
  const std::uint64_t block = address / kBlock;
  const std::uint64_t page = address / kPage % kPagesOfBlock;
  Slot& slot = slots_[slot_of(block)];
  if (slot.block != block) {
    slot = {block, 0};
    const std::int64_t got = os.read_own_memory(copy_of(block, 0), block * kBlock, kBlock);
    for (std::uint64_t i = 0; got > 0 && (i + 1) * kPage <= static_cast<std::uint64_t>(got); ++i)
      slot.pages |= 1ULL << i;
  }
  // The page behind one that cannot be read.
  if ((slot.pages >> page & 1) == 0) {
    if (os.read_own_memory(copy_of(block, page), address / kPage * kPage, kPage) != static_cast<std::int64_t>(kPage))
      return nullptr;
    slot.pages |= 1ULL << page;
  }
  return copy_of(block, page);
}

}  // namespace culprit
