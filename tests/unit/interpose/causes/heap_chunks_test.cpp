// The chunks of glibc's malloc are found by their headers, and no state of the memory breaks the search.
#include "interpose/causes/heap_chunks.h"

#include <sys/mman.h>

#include <random>

#include "interpose/causes/heap_nodes.h"
#include "tests/catch.h"

using namespace culprit;

namespace {

constexpr std::uint64_t kHeapPage = 4096;

// HeapMemory that begins at a multiple of 64 MiB, as the heaps of threads do.
class HeapMemory {
 public:
  explicit HeapMemory(std::uint64_t bytes) : bytes_(bytes + kAlignment) {
    whole_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(whole_ != MAP_FAILED);
    begin_ = (reinterpret_cast<std::uint64_t>(whole_) + kAlignment - 1) / kAlignment * kAlignment;
  }
  ~HeapMemory() { ::munmap(whole_, bytes_); }
  HeapMemory(const HeapMemory&) = delete;
  HeapMemory& operator=(const HeapMemory&) = delete;

  std::uint64_t& at(std::uint64_t offset) { return *reinterpret_cast<std::uint64_t*>(begin_ + offset); }
  std::uint64_t address(std::uint64_t offset) const { return begin_ + offset; }

 private:
  static constexpr std::uint64_t kAlignment = 64 << 20;
  void* whole_;
  std::uint64_t bytes_;
  std::uint64_t begin_;
};

class Chunks {
 public:
  Chunks() { REQUIRE(chunks.open_empty()); }
  ~Chunks() { chunks.close(); }
  HeapChunks chunks;
};

// The chunk that `address` points into, as its offset and size; {0, 0} for none.
std::pair<std::uint64_t, std::uint64_t> chunk_found(HeapChunks& chunks, const HeapMemory& memory,
                                                    std::uint64_t offset) {
  HeapChunk chunk = {};
  if (!chunks.find(memory.address(offset), &chunk)) return {0, 0};
  return {chunk.begin - memory.address(0), chunk.bytes};
}

const std::pair<std::uint64_t, std::uint64_t> kNoChunk = {0, 0};

// Chunks of 48, 32 and 4096 bytes with their headers, the second one free, then the top.
void fill_heap(HeapMemory* memory, std::uint64_t from) {
  memory->at(from + 8) = 48 | 1;
  memory->at(from + 48 + 8) = 32 | 1;
  memory->at(from + 80 + 8) = 4096;  // the chunk before is free
  memory->at(from + 80 + 4096 + 8) = (4 * kHeapPage - from - 80 - 4096) | 1;
}

}  // namespace

TEST_CASE("chunks in use are found from any word inside", "[heap]") {
  HeapMemory memory(4 * kHeapPage);
  fill_heap(&memory, 0);
  Chunks set;
  set.chunks.add({memory.address(0), memory.address(4 * kHeapPage)}, true);
  CHECK(chunk_found(set.chunks, memory, 16) == std::make_pair(std::uint64_t{16}, std::uint64_t{40}));
  CHECK(chunk_found(set.chunks, memory, 48) == std::make_pair(std::uint64_t{16}, std::uint64_t{40}));
  CHECK(chunk_found(set.chunks, memory, 64) == kNoChunk);  // free
  CHECK(chunk_found(set.chunks, memory, 96) == std::make_pair(std::uint64_t{96}, std::uint64_t{4088}));
  CHECK(chunk_found(set.chunks, memory, 96 + 1000) == std::make_pair(std::uint64_t{96}, std::uint64_t{4088}));
  CHECK(chunk_found(set.chunks, memory, 96 + 3000) == std::make_pair(std::uint64_t{96}, std::uint64_t{4088}));
  CHECK(chunk_found(set.chunks, memory, 4 * kHeapPage) == kNoChunk);
}

TEST_CASE("an old header inside of a chunk is none", "[heap]") {
  for (const bool program_break : {true, false}) {
    HeapMemory memory(64 << 20);
    const std::uint64_t from = program_break ? 0 : 64;
    memory.at(0) = 0x7000;
    memory.at(16) = 4 * kHeapPage;
    fill_heap(&memory, from);
    // In the chunk of 4096 bytes: 1000 bytes behind its begin, and up to its end.
    const std::uint64_t begin = from + 96;
    memory.at(begin + 1008 - 8) = (4096 - 1008) | 1;
    Chunks set;
    set.chunks.add({memory.address(0), memory.address(program_break ? 4 * kHeapPage : 32 << 20)}, program_break);
    CHECK(chunk_found(set.chunks, memory, begin + 1008) == std::make_pair(begin, std::uint64_t{4088}));
  }
}

TEST_CASE("behind a header that leads nowhere chunks are found by their own", "[heap]") {
  HeapMemory memory(4 * kHeapPage);
  fill_heap(&memory, 0);
  memory.at(8) = 7;
  Chunks set;
  set.chunks.add({memory.address(0), memory.address(4 * kHeapPage)}, true);
  CHECK(chunk_found(set.chunks, memory, 16) == kNoChunk);
  CHECK(chunk_found(set.chunks, memory, 96 + 1000) == std::make_pair(std::uint64_t{96}, std::uint64_t{4088}));
  CHECK(chunk_found(set.chunks, memory, 96 + 3000) == kNoChunk);  // too far inside for a guess
}

TEST_CASE("the heaps of threads are found by their own header", "[heap]") {
  HeapMemory memory(64 << 20);
  memory.at(0) = 0x7000;          // the arena
  memory.at(16) = 4 * kHeapPage;  // the size
  fill_heap(&memory, 64);
  Chunks set;
  set.chunks.add({memory.address(0), memory.address(32 << 20)}, false);
  CHECK(chunk_found(set.chunks, memory, 64 + 16) == std::make_pair(std::uint64_t{80}, std::uint64_t{40}));
  CHECK(chunk_found(set.chunks, memory, 4 * kHeapPage + 16) == kNoChunk);
}

TEST_CASE("chunks with mappings of their own are found, also side by side", "[heap]") {
  HeapMemory memory(64 * kHeapPage);
  memory.at(8) = 10 * kHeapPage | 2;
  memory.at(10 * kHeapPage + 8) = 20 * kHeapPage | 2;
  Chunks set;
  set.chunks.add({memory.address(0), memory.address(64 * kHeapPage)}, false);
  CHECK(chunk_found(set.chunks, memory, 16).second == 10 * kHeapPage - 16);
  CHECK(chunk_found(set.chunks, memory, 9 * kHeapPage).first == 16);
  CHECK(chunk_found(set.chunks, memory, 29 * kHeapPage).first == 10 * kHeapPage + 16);
  CHECK(chunk_found(set.chunks, memory, 31 * kHeapPage) == kNoChunk);
}

TEST_CASE("memory that cannot be read, and any bytes as headers, give an answer inside the heap", "[heap]") {
  HeapMemory memory(16 * kHeapPage);
  std::mt19937_64 random(2026);
  for (std::uint64_t i = 0; i < 16 * kHeapPage; i += 8) {
    const std::uint64_t word = random();
    memory.at(i) = i % 3 == 0 ? word % 512 : i % 3 == 1 ? word % (16 * kHeapPage) : word;
  }
  REQUIRE(::mprotect(reinterpret_cast<void*>(memory.address(5 * kHeapPage)), 2 * kHeapPage, PROT_NONE) == 0);
  Chunks set;
  for (const bool program_break : {true, false}) {
    Chunks one;
    one.chunks.add({memory.address(0), memory.address(16 * kHeapPage)}, program_break);
    std::uint64_t outside = 0;
    for (std::uint64_t i = 0; i < 16 * kHeapPage; i += 8) {
      HeapChunk chunk = {};
      if (!one.chunks.find(memory.address(i), &chunk)) continue;
      if (chunk.begin < memory.address(0) || chunk.begin > memory.address(i) ||
          chunk.bytes > memory.address(16 * kHeapPage) - chunk.begin)
        ++outside;
    }
    CHECK(outside == 0);
  }
}

TEST_CASE("a chunk has one node, however often it is reached", "[heap]") {
  HeapNodes nodes;
  REQUIRE(nodes.open());
  bool added = false;
  for (std::uint64_t i = 1; i <= 10000; ++i) {
    const std::uint32_t number = nodes.add(i * 32, &added);
    REQUIRE(added);
    nodes.enqueue(number);
  }
  CHECK(nodes.add(32, &added) == 0);
  CHECK(!added);
  std::uint32_t number = 0;
  for (std::uint32_t i = 0; i < 10000; ++i) {
    REQUIRE(nodes.next(&number));
    REQUIRE(number == i);
  }
  CHECK(!nodes.next(&number));
  nodes.enqueue(0);
  nodes.close();
  REQUIRE(nodes.open());  // empty again
  CHECK(!nodes.next(&number));
  CHECK(nodes.add(64, &added) == 0);
  CHECK(added);
  nodes.close();
}
