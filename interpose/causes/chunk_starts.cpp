#include "interpose/causes/chunk_starts.h"

#include "interpose/causes/page_copies.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using namespace malloc_layout;

namespace {

constexpr std::uint64_t kBits = 64;
// So many take about 0.2 s.
constexpr std::uint64_t kMostChunks = 1 << 24;

}  // namespace

bool ChunkStarts::open(std::uint64_t first, std::uint64_t end) {
  words_ = (end - first) / kAlignment / kBits + 1;
  bits_ = map_items<std::uint64_t>(words_);
  first_ = at_ = first;
  end_ = end;
  steps_ = 0;
  return bits_ != nullptr;
}

void ChunkStarts::close() {
  unmap_items(bits_, words_);
  bits_ = nullptr;
}

bool ChunkStarts::step(PageCopies* pages) {
  std::uint64_t header = 0;
  if (end_ - at_ < kLeastSize || steps_ == kMostChunks || !pages->word(at_ + 8, &header)) return false;
  const std::uint64_t size = size_of_chunk(header, end_ - at_);
  if (size == 0) return false;
  const std::uint64_t bit = (at_ - first_) / kAlignment;
  bits_[bit / kBits] |= 1ULL << bit % kBits;
  at_ += size;
  ++steps_;
  return true;
}

std::uint64_t ChunkStarts::last(std::uint64_t address, std::uint64_t farthest) const {
  if (address < first_ + kHeader) return 0;
  const std::uint64_t bit = (address - kHeader - first_) / kAlignment;
  const std::uint64_t lowest = bit > farthest / kAlignment ? bit - farthest / kAlignment : 0;
  for (std::uint64_t word = bit / kBits + 1; word-- > lowest / kBits;) {
    std::uint64_t bits = bits_[word];
    if (word == bit / kBits) bits &= ~std::uint64_t{0} >> (kBits - 1 - bit % kBits);
    if (bits == 0) continue;
    const std::uint64_t found = word * kBits + (kBits - 1) - static_cast<unsigned>(__builtin_clzll(bits));
    return found < lowest ? 0 : first_ + kHeader + found * kAlignment;
  }
  return 0;
}

}  // namespace culprit
