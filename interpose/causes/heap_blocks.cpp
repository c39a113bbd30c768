#include "interpose/causes/heap_blocks.h"

#include "interpose/causes/malloc_layout.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using namespace malloc_layout;

bool HeapBlocks::open(PageCopies* pages, std::uint64_t key) {
  pages_ = pages;
  key_ = key;
  int error = 0;
  for (room_ = kMost; room_ >= kLeast && begins_ == nullptr; room_ /= 4)
    begins_ = static_cast<std::uint64_t*>(map_private(room_ * sizeof(std::uint64_t), &error));
  room_ *= 4;
  return begins_ != nullptr;
}

void HeapBlocks::close() {
  if (begins_ != nullptr) unmap_private(begins_, room_ * sizeof(std::uint64_t));
  begins_ = nullptr;
}

bool HeapBlocks::add(std::uint64_t begin_and_flags) {
  if (count_ == room_) {
    full_ = true;
    return false;
  }
  if (count_ == 0) least_ = begin_and_flags & ~kFlags;
  begins_[count_++] = begin_and_flags;
  span_ = (begin_and_flags & ~kFlags) - least_;
  return true;
}

std::uint32_t HeapBlocks::search(std::uint64_t address) const {
  std::uint32_t low = 0;
  std::uint32_t high = count_;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if ((begins_[middle] & ~kFlags) <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0 || low == count_) return kNone;
  return (begins_[low - 1] & (kGap | kFree)) == 0 ? low - 1 : kNone;
}

bool HeapBlocks::walk(std::uint64_t first, std::uint64_t end) {
  const std::uint32_t before = count_;
  const std::uint64_t span = span_;
  const std::uint64_t least = least_;
  const auto give_up = [&] {
    count_ = before;
    span_ = span;
    least_ = least;
    return false;
  };
  for (std::uint64_t at = first;;) {
    std::uint64_t header = 0;
    if (end - at < kLeastSize || !pages_->word(at + 8, &header)) return give_up();
    const std::uint64_t size = size_of_chunk(header, end - at);
    if (size == 0) return give_up();
    if (size == end - at) {
      gap(at + kHeader);  // the top is not used
      return !full_ || give_up();
    }
    std::uint64_t next = 0;
    std::uint64_t second = 0;
    if (!pages_->word(at + size + 8, &next) || !pages_->word(at + kHeader + 8, &second)) return give_up();
    const bool free = (next & kInUseBefore) == 0 || (key_ != 0 && second == key_);
    if (!add((at + kHeader) | (free ? kFree : 0))) return give_up();
    at += size;
  }
}

bool HeapBlocks::add_break_heap(const MemoryRange& heap) { return walk(heap.begin, heap.end); }

bool HeapBlocks::add_thread_heap(std::uint64_t base, std::uint64_t most, std::uint64_t* end) {
  const std::uint64_t end_of_heap = end_of_thread_heap(base, most, pages_);
  if (end_of_heap == 0) return false;
  for (std::uint64_t before = kLeastBeforeFirst; before < kMostBeforeFirst; before += kAlignment) {
    if (!walk(base + before, end_of_heap)) continue;
    *end = end_of_heap;
    return true;
  }
  return false;
}

bool HeapBlocks::add_mapped_chunk(std::uint64_t page, std::uint64_t most, std::uint64_t* end) {
  std::uint64_t before = 0;
  std::uint64_t header = 0;
  if (!pages_->word(page, &before) || !pages_->word(page + 8, &header)) return false;
  const std::uint64_t size = header & ~kSizeFlags;
  if ((header & kSizeFlags) != kOwnMapping || before != 0 || size == 0 || size % PageCopies::kPage != 0 ||
      size > most - page)
    return false;
  if (!add((page + kHeader) | kMapped)) return false;
  gap(page + size + kHeader);  // a pointer to the end belongs to this chunk
  *end = page + size;
  return true;
}

}  // namespace culprit
