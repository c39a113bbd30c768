// Handles are found in memory wherever they are whole and aligned, and no state of the memory breaks the scan.
#include "interpose/causes/memory_scan.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "interpose/system/clock.h"
#include "tests/catch.h"

using namespace culprit;
using culprit::format::HolderSearch;
using culprit::format::Ref;

namespace {

constexpr std::uint64_t kNever = ~0ULL;
constexpr std::uint64_t kPage = 4096;

// A stretch of memory that is zero and was never touched.
class Memory {
 public:
  explicit Memory(std::uint64_t bytes) : bytes_(bytes) {
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    words_ = static_cast<std::uint64_t*>(memory);
  }
  ~Memory() { ::munmap(words_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::uint64_t& at(std::uint64_t offset) { return words_[offset / 8]; }
  std::uint64_t address(std::uint64_t offset) const { return reinterpret_cast<std::uint64_t>(words_) + offset; }
  MemoryRange range() const { return {address(0), address(bytes_)}; }
  void protect(std::uint64_t offset, std::uint64_t bytes) const {
    REQUIRE(::mprotect(reinterpret_cast<void*>(address(offset)), bytes, PROT_NONE) == 0);
  }
  std::uint64_t touched_pages() const {
    std::vector<unsigned char> resident(bytes_ / kPage);
    REQUIRE(::mincore(words_, bytes_, resident.data()) == 0);
    return static_cast<std::uint64_t>(
        std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; }));
  }

 private:
  std::uint64_t bytes_;
  std::uint64_t* words_;
};

// The places where each allocation was found.
struct Finds {
  std::map<Ref, std::uint64_t> places;
  std::map<Ref, std::uint32_t> tags;
  static void note(void* context, Ref allocation, std::uint32_t tag, std::uint64_t address) {
    auto* finds = static_cast<Finds*>(context);
    CHECK(finds->places.count(allocation) == 0);
    finds->places[allocation] = address;
    finds->tags[allocation] = tag;
  }
};

struct Handles {
  HandleSet set = {};
  explicit Handles(const std::vector<std::uint64_t>& handles) {
    REQUIRE(set.reserve(handles.size()));
    Ref ref = 100;
    for (std::uint64_t handle : handles) set.add(handle, ref++, 5);
  }
  ~Handles() { set.release(); }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
};

ScanResult scan(Handles& handles, const std::vector<MemoryRange>& ranges, Finds* finds,
                std::uint64_t deadline = kNever) {
  return scan_memory(handles.set, ranges.data(), static_cast<int>(ranges.size()), deadline, Finds::note, finds);
}

struct RestoredOs {
  OsCalls saved = os;
  ~RestoredOs() { os = saved; }
};

}  // namespace

TEST_CASE("a handle is found where it stands whole and aligned, at its first place", "[scan]") {
  Memory memory(1 << 20);
  memory.at(0) = 0x7f0000001000;
  memory.at(512 * 1024) = 0x7f0000002000;
  memory.at((1 << 20) - 8) = 0x7f0000003000;
  memory.at(64 * 1024) = 0x7f0000001000;                                                  // again
  std::memcpy(reinterpret_cast<char*>(&memory.at(8192)) + 4, "\0\x40\0\0\0\x7f\0\0", 8);  // not aligned
  memory.at(16384) = 0x7f0000005008;                                                      // inside of one
  Handles handles({0x7f0000001000, 0x7f0000002000, 0x7f0000003000, 0x7f0000004000, 0x7f0000005000});
  Finds finds;
  const ScanResult result = scan(handles, {memory.range()}, &finds);
  CHECK(result.end == HolderSearch::kDone);
  CHECK(finds.places == std::map<Ref, std::uint64_t>{{100, memory.address(0)},
                                                     {101, memory.address(512 * 1024)},
                                                     {102, memory.address((1 << 20) - 8)}});
  CHECK(finds.tags[100] == 5);
  CHECK(handles.set.missing() == 2);
}

TEST_CASE("ranges are searched in their order", "[scan]") {
  Memory first(kPage);
  Memory second(kPage);
  first.at(8) = second.at(16) = 0x7f0000001000;
  Handles handles({0x7f0000001000});
  Finds finds;
  scan(handles, {second.range(), first.range()}, &finds);
  CHECK(finds.places[100] == second.address(16));
}

TEST_CASE("all allocations that share a handle are found", "[scan]") {
  Memory memory(kPage);
  memory.at(24) = 0x7f0000001000;
  Handles handles({0x7f0000001000, 0x7f0000001000, 0x7f0000001000});
  Finds finds;
  scan(handles, {memory.range()}, &finds);
  CHECK(finds.places.size() == 3);
}

TEST_CASE("a small number is no handle that could be looked for", "[scan]") {
  Memory memory(kPage);
  memory.at(0) = 7;
  Handles handles({7, 0x7f0000001000});
  Finds finds;
  scan(handles, {memory.range()}, &finds);
  CHECK(finds.places.empty());
  CHECK(handles.set.size() == 1);
}

TEST_CASE("memory that cannot be read is stepped over", "[scan]") {
  Memory memory(1 << 20);
  for (std::uint64_t page = 0; page < 256; ++page) memory.at(page * kPage) = 1;
  memory.at(8) = 0x7f0000001000;
  memory.at(5 * kPage + 8) = 0x7f0000002000;
  memory.at(7 * kPage - 8) = 0x7f0000003000;
  memory.at(300 * 1024) = 0x7f0000004000;
  memory.protect(5 * kPage, kPage);
  memory.protect(100 * kPage, 100 * kPage);
  Handles handles({0x7f0000001000, 0x7f0000002000, 0x7f0000003000, 0x7f0000004000});
  Finds finds;
  const MemoryRange beyond = {memory.address(1 << 20), memory.address(1 << 20) + kPage};
  void* gap = ::mmap(reinterpret_cast<void*>(beyond.begin), kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const ScanResult result = scan(handles, {memory.range(), {0x1000, 0x9000}}, &finds);
  CHECK(result.end == HolderSearch::kDone);
  CHECK(finds.places == std::map<Ref, std::uint64_t>{{100, memory.address(8)},
                                                     {102, memory.address(7 * kPage - 8)},
                                                     {103, memory.address(300 * 1024)}});
  ::munmap(gap, kPage);
}

TEST_CASE("pages that were never written are not read and stay away", "[scan]") {
  Memory memory(64 << 20);
  memory.at(20 << 20) = 0x7f0000001000;
  Handles handles({0x7f0000001000, 0x7f0000002000});
  Finds finds;
  const std::uint64_t before = memory.touched_pages();
  const ScanResult result = scan(handles, {memory.range()}, &finds);
  CHECK(finds.places.size() == 1);
  CHECK(memory.touched_pages() == before);
  if (::access("/proc/self/pagemap", R_OK) == 0) CHECK(result.bytes_read < (4 << 20));
}

TEST_CASE("without /proc all pages are read", "[scan]") {
  const RestoredOs restored;
  os.open_file = [](const char*, int, unsigned) { return -ENOENT; };
  Memory memory(1 << 20);
  memory.at(700000) = 0x7f0000001000;
  Handles handles({0x7f0000001000, 0x7f0000002000});
  Finds finds;
  const ScanResult result = scan(handles, {memory.range()}, &finds);
  CHECK(finds.places.size() == 1);
  CHECK(result.bytes_read == 1 << 20);
}

TEST_CASE("a kernel that refuses to read ends the search", "[scan]") {
  const RestoredOs restored;
  os.read_own_memory = [](void*, std::uint64_t, std::uint64_t) -> std::int64_t { return -EPERM; };
  Memory memory(kPage);
  memory.at(0) = 0x7f0000001000;
  Handles handles({0x7f0000001000});
  Finds finds;
  CHECK(scan(handles, {memory.range()}, &finds).end == HolderSearch::kStopped);
  CHECK(finds.places.empty());
}

TEST_CASE("the search ends at its time limit", "[scan]") {
  Memory memory(4 << 20);
  for (std::uint64_t page = 0; page < 1024; ++page) memory.at(page * kPage) = 1;
  memory.at((4 << 20) - 8) = 0x7f0000001000;
  Handles handles({0x7f0000001000});
  Finds finds;
  CHECK(scan(handles, {memory.range()}, &finds, 1).end == HolderSearch::kStopped);
  CHECK(finds.places.empty());
}

TEST_CASE("no memory for the search is no harm", "[scan]") {
  const RestoredOs restored;
  os.map = [](void*, std::uint64_t, int, int, int, std::uint64_t, int* error) -> void* {
    *error = ENOMEM;
    return nullptr;
  };
  HandleSet set = {};
  CHECK_FALSE(set.reserve(1000));
}

// For measuring: interpose_unit_test "[benchmark]" prints the time. 1,000,000 handles as the H200 hands them out (2 MiB
// apart, and 512 bytes), against 200 MiB of data that is all written: half of it looks like pointers.
TEST_CASE("a million handles against 200 MiB", "[.benchmark]") {
  constexpr std::uint64_t kHandles = 1000000;
  constexpr std::uint64_t kBytes = 200ULL << 20;
  std::vector<std::uint64_t> list;
  for (std::uint64_t i = 0; i < kHandles; ++i) list.push_back(0x7f2000000000 + i * 512);
  for (const bool held : {false, true}) {
    Memory memory(kBytes);
    std::mt19937_64 random(7);
    for (std::uint64_t i = 0; i < kBytes / 8; ++i) {
      const std::uint64_t value = random();
      memory.at(i * 8) = i % 2 == 0 ? value : 0x7f2000000000 + value % (kHandles * 512);
    }
    if (held) {
      for (std::uint64_t i = 0; i < kHandles; ++i) memory.at(i * 200) = list[i];
    }
    const auto start = std::chrono::steady_clock::now();
    Handles handles(list);
    const auto ready = std::chrono::steady_clock::now();
    std::uint64_t found = 0;
    const MemoryRange range = memory.range();
    const ScanResult result = scan_memory(
        handles.set, &range, 1, kNever,
        [](void* count, Ref, std::uint32_t, std::uint64_t) { ++*static_cast<std::uint64_t*>(count); }, &found);
    const auto end = std::chrono::steady_clock::now();
    const auto ms = [](auto span) { return std::chrono::duration<double, std::milli>(span).count(); };
    std::printf("%llu handles found of %llu in %llu MiB: %.0f ms to collect, %.0f ms to search\n",
                static_cast<unsigned long long>(found), static_cast<unsigned long long>(kHandles),
                static_cast<unsigned long long>(result.bytes_read >> 20), ms(ready - start), ms(end - ready));
    CHECK(result.end == HolderSearch::kDone);
  }
}
