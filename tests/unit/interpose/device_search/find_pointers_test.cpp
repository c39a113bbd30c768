// The kernel finds the pointers that a plain look at each byte finds, at each place of memory.
#include "interpose/device_search/find_pointers.h"

#include <memory>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "interpose/device_search/upper_ranges.h"
#include "tests/catch.h"
#include "tests/support/host_memory.h"

using namespace culprit;

namespace {

constexpr std::uint64_t kTargetsBegin = 0x7f1230000000;
constexpr std::uint64_t kHeapBegin = 0x55c900001000;
constexpr std::uint64_t kPointerTag = 0x3f54;

struct SearchedBlock {
  std::vector<std::uint64_t> words;
  std::uint64_t bytes;
  std::uint32_t number;

  unsigned char* data() { return reinterpret_cast<unsigned char*>(words.data()); }
  void store(std::uint64_t offset, std::uint64_t word) { std::memcpy(data() + offset, &word, sizeof(word)); }
};

// Found pointers: the number of the searched block, the target or the address, whether only as a begin.
using FoundPointers = std::set<std::tuple<std::uint64_t, std::uint64_t, bool>>;

class SimulatedKernel {
 public:
  SimulatedKernel() {
    for (std::uint64_t i = 0; i < 10; ++i)
      targets_.push_back({kTargetsBegin + i * 0x10000, kTargetsBegin + i * 0x10000 + 0x8001});
    hosts_ = {{kHeapBegin, kHeapBegin + 0x100000, 1}, {kHeapBegin + 0x300000, kHeapBegin + 0x301000, 0x100002}};
  }

  SearchedBlock& add(std::uint64_t bytes, std::uint32_t number) {
    blocks_.push_back(
        std::make_unique<SearchedBlock>(SearchedBlock{std::vector<std::uint64_t>(bytes / 8 + 4), bytes, number}));
    return *blocks_.back();
  }

  FoundPointers run() {
    std::vector<SearchedMemory> memory;
    std::uint64_t pieces = 0;
    for (const auto& block : blocks_) {
      memory.push_back(
          {reinterpret_cast<std::uint64_t>(block->data()), block->bytes, pieces, block->number, block->bytes <= 65536});
      pieces += pieces_of(block->bytes);
    }
    counters_ = {};
    slots_.assign(kSlots, 0);
    list_.assign(kMostFound, 0);
    SearchOrder order = {memory.data(), targets_.data(), hosts_.data(), &counters_,
                         slots_.data(), list_.data(),    pieces};
    order.memory_count = static_cast<std::uint32_t>(memory.size());
    order.target_count = static_cast<std::uint32_t>(targets_.size());
    order.host_count = static_cast<std::uint32_t>(hosts_.size());
    UpperRanges uppers(order.uppers);
    for (const HostRange& host : hosts_) uppers.add(host.begin, host.end);
    for (const TargetRange& target : targets_) uppers.add(target.begin - kBytesBeforeTarget, target.end);
    uppers.finish();
    PointerFinder<HostMemory> finder(order);
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      for (std::uint32_t thread = 0; thread < 2 * kWarp; ++thread) finder.look_at(piece, thread, 2 * kWarp);
    }
    FoundPointers found;
    bool once = true;
    for (std::uint64_t i = 0; i < std::min(counters_.found, kMostFound); ++i) {
      const std::uint64_t entry = list_[i];
      const std::uint64_t number = (entry & ~kToTarget) >> kNumberShift;
      const bool to_target = (entry & kToTarget) != 0;
      once = found
                 .insert({number, to_target ? entry % kMostNumbers : address_of(entry % kMostPlaces),
                          !to_target && (entry & kToBegin) != 0})
                 .second &&
             once;
    }
    CHECK(once);
    return found;
  }

  // By a plain look at each byte.
  FoundPointers expected() {
    FoundPointers found;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      for (std::uint64_t at = 0; at + 8 <= blocks_[i]->bytes; ++at) {
        std::uint64_t word = 0;
        std::memcpy(&word, blocks_[i]->data() + at, sizeof(word));
        add_expected(i, *blocks_[i], at, word, &found);
      }
    }
    return found;
  }

  const SearchCounters& counters() const { return counters_; }

 private:
  std::uint64_t address_of(std::uint64_t place) const {
    const HostRange& host = place >= hosts_[1].first ? hosts_[1] : hosts_[0];
    return host.begin + place - host.first;
  }

  void add_expected(std::size_t block, const SearchedBlock& content, std::uint64_t at, std::uint64_t word,
                    FoundPointers* found) const {
    const bool tag = word >> 48 != 0;
    const bool large = content.bytes > 65536;
    if (tag && large && at % 8 != 0) return;
    const std::uint64_t address = word & kPointerBits;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (i == content.number || address + 64 < targets_[i].begin || address > targets_[i].end) continue;
      if (tag && large && address - targets_[i].begin >= 16) continue;
      found->insert({block, i, false});
    }
    for (const HostRange& host : hosts_) {
      if (address >= host.begin && address <= host.end) found->insert({block, address, tag && large});
    }
  }

  std::vector<std::unique_ptr<SearchedBlock>> blocks_;
  std::vector<TargetRange> targets_;
  std::vector<HostRange> hosts_;
  SearchCounters counters_ = {};
  std::vector<std::uint64_t> slots_;
  std::vector<std::uint64_t> list_;
};

}  // namespace

TEST_CASE("the kernel finds a pointer at each place of large memory", "[device_search][one-thread]") {
  for (const std::uint64_t bytes : {std::uint64_t{65537}, 2 * kPieceBytes + 11, kPieceBytes + kWarpBytes + 9}) {
    for (const std::uint64_t near : {std::uint64_t{40}, kWarpBytes + 30, kPieceBytes, bytes - 8}) {
      SimulatedKernel search;
      FoundPointers expected;
      std::uint64_t block = 0;
      for (std::uint64_t at = near > 40 ? near - 40 : 0; at <= near && at + 8 <= bytes; ++at) {
        search.add(bytes, 0).store(at, kTargetsBegin + 0x50000 + 77);
        expected.insert({block++, 5, false});
      }
      INFO(bytes << " " << near);
      CHECK(search.run() == expected);
    }
  }
}

TEST_CASE("the kernel believes tags as the search of the process does", "[device_search][one-thread]") {
  for (const std::uint64_t bytes : {4096ULL, 65536ULL, 300000ULL}) {
    for (const std::uint64_t at : {std::uint64_t{64}, std::uint64_t{67}, bytes - 8}) {
      for (const std::uint64_t word :
           {kPointerTag << 48 | (kTargetsBegin + 0x30000 + 5), kPointerTag << 48 | (kTargetsBegin + 0x30000 + 500),
            kPointerTag << 48 | (kHeapBegin + 0x40), kHeapBegin + 0x43, kTargetsBegin + 0x30000 - 64,
            kTargetsBegin + 0x30000 - 65, kTargetsBegin + 0x38001, kTargetsBegin + 0x38002}) {
        SimulatedKernel search;
        search.add(bytes, 9).store(at, word);
        INFO(bytes << " " << at << " " << std::hex << word);
        CHECK(search.run() == search.expected());
      }
    }
  }
}

TEST_CASE("the kernel finds what a plain look at random memory finds", "[device_search][one-thread]") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 6; ++round) {
    SimulatedKernel search;
    for (std::uint32_t number = 0; number < 6; ++number) {
      const std::uint64_t bytes = random() % 2 == 0 ? 100 + random() % 60000 : 70000 + random() % 700000;
      SearchedBlock& block = search.add(bytes, number);
      if (number % 3 != 0) {
        for (std::uint64_t& word : block.words) word = number % 3 == 1 ? random() : random() & 0x0000ffff0000ffff;
      }
      for (int i = 0; i < 200; ++i) {
        const std::uint64_t address =
            random() % 2 == 0 ? kTargetsBegin + random() % 0xb0000 : kHeapBegin + random() % 0x310000;
        block.store(random() % (bytes - 8), address | (random() % 3 == 0 ? kPointerTag << 48 : 0));
      }
    }
    const FoundPointers found = search.run();
    CHECK(found.size() > 100);
    CHECK(found == search.expected());
    CHECK(search.counters().full == 0);
  }
}

TEST_CASE("more pointers than there is room for are noticed", "[device_search][one-thread]") {
  SimulatedKernel search;
  SearchedBlock& block = search.add(16 * (kMostFound + 10), 0);
  for (std::uint64_t i = 0; i < kMostFound + 10; ++i) block.words[2 * i] = kHeapBegin + i % 0x100000;
  search.run();
  CHECK(search.counters().full != 0);
}

TEST_CASE("the ranges of upper halves hold all addresses", "[device_search]") {
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> added = {
      {1, 1},           {0x55c9, 0x55c9}, {0x55ca, 0x55cb}, {0x7e00, 0x7e02},
      {0x7f10, 0x7f12}, {0x7f13, 0x7f13}, {0x7fff, 0x7fff}};
  UpperRange ranges[kUpperRanges] = {};
  UpperRanges uppers(ranges);
  for (const auto& [first, last] : added) uppers.add(std::uint64_t{first} << 32, (std::uint64_t{last} << 32) + 5);
  uppers.finish();
  const auto holds = [&](std::uint32_t upper) {
    return std::any_of(std::begin(ranges), std::end(ranges),
                       [&](const UpperRange& range) { return upper - range.first <= range.more; });
  };
  for (const auto& [first, last] : added) CHECK((holds(first) && holds(last)));
  CHECK_FALSE(holds(0));
  CHECK_FALSE(holds(0x9000));
}
