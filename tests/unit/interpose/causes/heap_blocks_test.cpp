// All chunks of a heap are found by a walk over their headers, and a heap that is damaged is not believed.
#include "interpose/causes/heap_blocks.h"

#include <sys/mman.h>

#include <vector>

#include "interpose/system/own_ranges.h"
#include "tests/catch.h"

using namespace culprit;

namespace {

constexpr std::uint64_t kBlockHeap = 4 * 4096;

class WalkedHeap {
 public:
  WalkedHeap() {
    memory_ = ::mmap(nullptr, kBlockHeap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory_ != MAP_FAILED);
    REQUIRE(pages_.open());
    REQUIRE(blocks.open(&pages_, 0));
  }
  ~WalkedHeap() {
    blocks.close();
    pages_.close();
    ::munmap(memory_, kBlockHeap);
  }
  WalkedHeap(const WalkedHeap&) = delete;
  WalkedHeap& operator=(const WalkedHeap&) = delete;

  std::uint64_t begin() const { return reinterpret_cast<std::uint64_t>(memory_); }
  std::uint64_t& at(std::uint64_t offset) { return *reinterpret_cast<std::uint64_t*>(begin() + offset); }
  // Chunks of 48, 32 and 4096 bytes with their headers, the second one free, then the top.
  void fill() {
    at(8) = 48 | 1;
    at(48 + 8) = 32 | 1;
    at(80 + 8) = 4096;
    at(80 + 4096 + 8) = (kBlockHeap - 80 - 4096) | 1;
  }
  // The offset of the block around an offset; -1: none.
  std::int64_t block_at(std::uint64_t offset) const {
    const std::uint32_t block = blocks.find(begin() + offset);
    return block == HeapBlocks::kNone ? -1 : static_cast<std::int64_t>(blocks.begin_of(block) - begin());
  }

  HeapBlocks blocks;

 private:
  void* memory_;
  PageCopies pages_;
};

}  // namespace

TEST_CASE("each address of a heap has its block, unless that is free", "[heap-blocks]") {
  WalkedHeap heap;
  heap.fill();
  REQUIRE(heap.blocks.add_break_heap({heap.begin(), heap.begin() + kBlockHeap}));
  CHECK(heap.block_at(16) == 16);
  CHECK(heap.block_at(16 + 40) == 16);  // one past its end
  CHECK(heap.block_at(64) == -1);
  CHECK(heap.block_at(96) == 96);
  CHECK(heap.block_at(96 + 4087) == 96);
  CHECK(heap.block_at(80 + 4096 + 16) == -1);
  CHECK(heap.block_at(kBlockHeap) == -1);
  const std::uint32_t block = heap.blocks.find(heap.begin() + 100);
  CHECK(heap.blocks.end_of(block) == heap.begin() + 80 + 4096 + 8);
  CHECK(heap.blocks.mark(block));
  CHECK_FALSE(heap.blocks.mark(block));
}

TEST_CASE("a heap with a wrong header is not believed", "[heap-blocks]") {
  const std::uint64_t wrong[] = {0, 16 | 1, 40 | 1, 56 | 1, kBlockHeap + 16, ~std::uint64_t{7}, 48 | 2};
  for (const std::uint64_t header : wrong) {
    INFO(header);
    WalkedHeap heap;
    heap.fill();
    heap.at(8) = header;
    CHECK_FALSE(heap.blocks.add_break_heap({heap.begin(), heap.begin() + kBlockHeap}));
    CHECK(heap.block_at(96) == -1);
  }
}

TEST_CASE("chunks with mappings of their own are blocks, and the memory behind them is not", "[heap-blocks]") {
  WalkedHeap heap;
  heap.at(8) = 4096 | 2;
  heap.at(4096 + 8) = 4096 | 2;
  std::vector<std::uint64_t> rest;
  heap.blocks.add_mapping({heap.begin(), heap.begin() + kBlockHeap},
                          [&](std::uint64_t begin, std::uint64_t) { rest.push_back(begin - heap.begin()); });
  REQUIRE(rest.size() == 1);
  CHECK(rest[0] == 8192);
  CHECK(heap.block_at(16) == 16);
  CHECK(heap.block_at(4096) == 16);
  CHECK(heap.block_at(4096 + 16) == 4096 + 16);
  CHECK(heap.blocks.end_of(heap.blocks.find(heap.begin() + 16)) == heap.begin() + 4096);
}

TEST_CASE("own ranges are listed in order until they are forgotten", "[own-ranges]") {
  std::vector<OwnRange> ranges(kMostOwnRanges);
  const int before = sorted_own_ranges(ranges.data());
  const auto* first = reinterpret_cast<const void*>(0x10000);
  const auto* second = reinterpret_cast<const void*>(0x20000);
  note_own_range(second, 4096);
  note_own_range(first, 8192);
  REQUIRE(sorted_own_ranges(ranges.data()) == before + 2);
  CHECK(ranges[0].begin == 0x10000);
  CHECK(ranges[0].end == 0x12000);
  CHECK(ranges[1].begin == 0x20000);
  forget_own_range(first);
  forget_own_ranges_in(second, 4096);
  CHECK(sorted_own_ranges(ranges.data()) == before);
}
