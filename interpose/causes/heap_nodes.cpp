#include "interpose/causes/heap_nodes.h"

#include <algorithm>

#include "interpose/system/own_memory.h"

namespace culprit {

std::uint64_t HeapNodes::bytes() const { return capacity_ * (sizeof(HeapNode) + 5 * sizeof(std::uint32_t)); }

// Pages that are never written take no memory.
bool HeapNodes::open() {
  int error = 0;
  for (capacity_ = kMost; capacity_ >= kLeast; capacity_ /= 2) {
    nodes_ = static_cast<HeapNode*>(map_private(bytes(), &error));
    if (nodes_ == nullptr) continue;
    queue_ = reinterpret_cast<std::uint32_t*>(nodes_ + capacity_);
    deferred_ = queue_ + 2 * capacity_;
    table_ = deferred_ + capacity_;
    return true;
  }
  return false;
}

void HeapNodes::close() {
  if (begins_ != nullptr) unmap_private(begins_, begin_count_ * sizeof(std::uint64_t));
  begins_ = nullptr;
  if (nodes_ != nullptr) unmap_private(nodes_, bytes());
  nodes_ = nullptr;
  count_ = deferred_count_ = queued_ = read_ = 0;
}

bool HeapNodes::sort_begins() {
  if (begins_ != nullptr) unmap_private(begins_, begin_count_ * sizeof(std::uint64_t));
  int error = 0;
  begin_count_ = count_;
  begins_ = static_cast<std::uint64_t*>(map_private(begin_count_ * sizeof(std::uint64_t), &error));
  if (begins_ == nullptr) return false;
  for (std::uint32_t i = 0; i < count_; ++i) begins_[i] = nodes_[i].begin;
  std::sort(begins_, begins_ + begin_count_);
  return true;
}

std::uint64_t HeapNodes::next_begin(std::uint64_t begin) const {
  const std::uint64_t* behind = std::upper_bound(begins_, begins_ + begin_count_, begin);
  return behind == begins_ + begin_count_ ? ~std::uint64_t{0} : *behind;
}

std::uint32_t HeapNodes::add(std::uint64_t begin, bool* added) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ULL;  // 2^64 / golden ratio
  const std::uint64_t mask = 2 * capacity_ - 1;
  // Nodes of one page lie side by side, so that few pages of the table are touched.
  constexpr std::uint64_t kPage = 4096;
  constexpr std::uint64_t kAlignment = 16;
  std::uint64_t slot = ((begin / kPage * kFactor >> 32) + begin % kPage / kAlignment) & mask;
  while (table_[slot] != 0 && nodes_[table_[slot] - 1].begin != begin) slot = (slot + 1) & mask;
  *added = table_[slot] == 0;
  if (!*added) return table_[slot] - 1;
  if (count_ == capacity_) return kNone;
  nodes_[count_].begin = begin;
  table_[slot] = ++count_;
  return count_ - 1;
}

}  // namespace culprit
