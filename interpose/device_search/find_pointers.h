// The work of one thread of the kernel in find_pointers.cu: it looks for pointers in the memory of a device. The
// simulated driver runs the same code on the host (tests/simcuda/driver/own_kernels.cpp).
//
// A pointer is looked for at each byte, as LostSearcher does in the memory of the process: eight bytes whose lower 48
// bits lead to a target. The upper 16 bits may be a tag:
// - in memory of at most 64 KiB at any place,
// - else only at a multiple of 8, and only if the rest leads to the begin of its target. Numbers look like pointers.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define CULPRIT_DEVICE __host__ __device__
#define CULPRIT_UNROLL _Pragma("unroll")
#define CULPRIT_ROLLED _Pragma("unroll 1")
#else
#define CULPRIT_DEVICE
#define CULPRIT_UNROLL
#define CULPRIT_ROLLED
#endif

namespace culprit {

// Memory to look through. `begin` is a multiple of 16.
struct SearchedMemory {
  std::uint64_t begin;
  std::uint64_t bytes;
  std::uint64_t first_piece;  // the pieces of all memory are counted through
  std::uint32_t number;       // of the target that it is itself; kNoTarget: none
  std::uint32_t any_tags;     // it is small
};

struct TargetRange {
  std::uint64_t begin;
  std::uint64_t end;  // refers to it, too
};

// Memory of the process that a pointer may lead to, too.
struct HostRange {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t first;  // its place among all, counted in bytes from 1 on
};

struct SearchCounters {
  std::uint64_t next;      // piece
  std::uint64_t done;      // pieces
  std::uint64_t found;     // entries of the list
  std::uint64_t full;      // there was no room
  std::uint64_t begin_ns;  // of the kernel
  std::uint64_t expired;
  std::uint64_t unused[2];
};

// Found pointers: to a target, with the number of the searched memory and of the target; or to the process, with the
// number of the searched memory and the place.
constexpr std::uint64_t kToTarget = 1ULL << 63;
constexpr std::uint64_t kToBegin = 1ULL << 41;  // of a place: it had a tag, and counts only for a begin
constexpr int kNumberShift = 42;
constexpr std::uint32_t kMostNumbers = 1 << 20;
constexpr std::uint64_t kMostPlaces = 1ULL << 41;
constexpr std::uint64_t kMostFound = 1 << 19;
constexpr std::uint64_t kSlots = 1 << 20;

constexpr std::uint64_t kPieceBytes = 256 << 10;
constexpr std::uint64_t kBytesBeforeTarget = 64;        // GpuBlocks::kBefore
constexpr std::uint64_t kMostBytesOfAnyTag = 64 << 10;  // in larger memory a tag is believed of begins alone
constexpr std::uint64_t kLowTagBits = 16;               // values of tags in the lowest bits of a begin
constexpr std::uint64_t kPointerBits = (1ULL << 48) - 1;
constexpr std::uint32_t kBytesAtOnce = 16;  // bytes
constexpr std::uint32_t kWarp = 32;         // threads
constexpr std::uint32_t kAhead = 4;         // loads of a thread at the same time: the memory is far away
constexpr std::uint64_t kWarpBytes = std::uint64_t{kAhead} * kWarp * kBytesAtOnce;
constexpr int kUpperRanges = 2;  // the heap, and what is mapped

// Values of the bits 32 to 47 of an address: `first`, and as many `more`.
struct UpperRange {
  std::uint32_t first;
  std::uint32_t more;
};

CULPRIT_DEVICE inline std::uint64_t pieces_of(std::uint64_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

// All arrays are the device's. Ranges are sorted by their beginnings.
struct SearchOrder {
  const SearchedMemory* memory;
  const TargetRange* targets;
  const HostRange* hosts;
  SearchCounters* counters;
  std::uint64_t* slots;  // kSlots
  std::uint64_t* list;   // kMostFound
  std::uint64_t pieces;
  std::uint64_t longest_ns;
  std::uint32_t memory_count;
  std::uint32_t target_count;
  std::uint32_t host_count;
  UpperRange uppers[kUpperRanges];  // of the addresses of all ranges; the rest are like the last one
};

// `Memory` has static functions: load(address, lane, words), of 24 bytes from each of kAhead places of a thread on,
// which all threads of a warp call together; load8(address); compare_exchange(place, expected, wanted) and add(place,
// value), both atomic, which return the old value.
template <typename Memory>
class PointerFinder {
 public:
  CULPRIT_DEVICE explicit PointerFinder(const SearchOrder& order) : order_(order) {}

  // The part of one of `threads` threads in a piece. A warp looks at 2 KiB at a time, each of its threads at 16 bytes
  // of each 512.
  CULPRIT_DEVICE void look_at(std::uint64_t piece, std::uint32_t thread, std::uint32_t threads) {
    number_ =
        last_of(order_.memory, order_.memory_count, piece, [](const SearchedMemory& one) { return one.first_piece; });
    memory_ = order_.memory[number_];
    const std::uint64_t from = (piece - memory_.first_piece) * kPieceBytes;
    const std::uint64_t rest = memory_.bytes - from;
    const std::uint64_t to = from + (rest < kPieceBytes ? rest : kPieceBytes);
    const std::uint32_t lane = thread % kWarp;
    for (std::uint64_t begin = from + thread / kWarp * kWarpBytes; begin < to; begin += threads / kWarp * kWarpBytes) {
      const bool all = begin + kWarpBytes + sizeof(std::uint64_t) > memory_.bytes || memory_.any_tags != 0;
      const std::uint32_t some = all ? (1U << kAhead) - 1 : places_to_look_at(begin, lane);
      CULPRIT_ROLLED
      for (std::uint32_t i = 0; some >> i != 0; ++i) {
        if ((some >> i & 1) != 0) look_at_sixteen(begin + (i * kWarp + lane) * kBytesAtOnce);
      }
    }
  }

 private:
  // A bit for each of this thread's places where a pointer may be: hardly ever one is set.
  CULPRIT_DEVICE std::uint32_t places_to_look_at(std::uint64_t begin, std::uint32_t lane) {
    std::uint64_t words[kAhead][3];
    Memory::load(memory_.begin + begin, lane, words);
    std::uint32_t some = 0;
    CULPRIT_UNROLL
    for (std::uint32_t i = 0; i < kAhead; ++i) some |= has_any(words[i]) ? 1U << i : 0;
    return some;
  }

  CULPRIT_DEVICE void look_at_sixteen(std::uint64_t at) {
    std::uint64_t words[3] = {};
    for (std::uint32_t i = 0; i < 3; ++i) {
      const std::uint64_t offset = at + i * sizeof(words[0]);
      if (offset < memory_.bytes) words[i] = Memory::load8(memory_.begin + offset);
    }
    CULPRIT_ROLLED
    for (std::uint32_t i = 0; i < kBytesAtOnce && at + i + sizeof(words[0]) <= memory_.bytes; ++i) {
      const std::uint64_t word = word_at(words, i);
      if (memory_.any_tags == 0 && i % 8 != 0 && word > kPointerBits) continue;
      if (may_lead(static_cast<std::uint32_t>(word >> 32) & 0xffff)) follow(word);
    }
  }

  // Whether one of the words of large memory may be a pointer: in a few steps for most content, and in not many more
  // for any other.
  CULPRIT_DEVICE bool has_any(const std::uint64_t* words) const {
    std::uint32_t halves[6];
    for (int i = 0; i < 6; ++i) halves[i] = static_cast<std::uint32_t>(words[i / 2] >> i % 2 * 32);
    if (may_lead(halves[1] & 0xffff) || may_lead(halves[3] & 0xffff)) return true;
    if (!has_two_zeros(halves) || (words[0] | words[1] | words[2]) == 0) return false;
    bool any = false;
    CULPRIT_UNROLL
    for (std::uint32_t i = 1; i < kBytesAtOnce; ++i) {
      const std::uint32_t shift = i % 4 * 8;
      const std::uint32_t low = halves[i / 4 + 1];
      any |= may_lead(shift == 0 ? low : low >> shift | halves[i / 4 + 2] << (32 - shift));
    }
    return any;
  }

  // Whether two bytes that follow each other may be zeros, as the highest two of a pointer without a tag are. (A byte
  // of 1 above one of 0 counts as 0.)
  CULPRIT_DEVICE static bool has_two_zeros(const std::uint32_t* halves) {
    std::uint32_t zeros[6] = {};
    std::uint32_t both = 0;
    for (int i = 1; i < 6; ++i) zeros[i] = (halves[i] - 0x01010101) & ~halves[i] & 0x80808080;
    for (int i = 1; i < 6; ++i) both |= zeros[i] & (zeros[i] >> 8 | (i < 5 ? zeros[i + 1] << 24 : 0));
    return both != 0;
  }

  // By the bits from 32 on of a word.
  CULPRIT_DEVICE bool may_lead(std::uint32_t upper) const {
    bool may = false;
    for (const UpperRange& range : order_.uppers) may |= upper - range.first <= range.more;
    return may;
  }

  CULPRIT_DEVICE static std::uint64_t word_at(const std::uint64_t* words, std::uint32_t place) {
    const std::uint64_t low = place < 8 ? words[0] : words[1];
    const std::uint64_t high = place < 8 ? words[1] : words[2];
    const std::uint32_t shift = place % 8 * 8;
    return shift == 0 ? low : low >> shift | high << (64 - shift);
  }

  CULPRIT_DEVICE void follow(std::uint64_t word) {
    const std::uint64_t address = word & kPointerBits;
    const bool to_begin = word > kPointerBits && memory_.any_tags == 0;
    std::uint32_t target = count_until(order_.targets, order_.target_count, address + kBytesBeforeTarget,
                                       [](const TargetRange& one) { return one.begin; });
    while (target-- != 0 && address <= order_.targets[target].end) {
      if (target == memory_.number || (to_begin && address - order_.targets[target].begin >= kLowTagBits)) continue;
      add(kToTarget | std::uint64_t{number_} << kNumberShift | target);
    }
    const std::uint32_t hosts =
        count_until(order_.hosts, order_.host_count, address, [](const HostRange& one) { return one.begin; });
    if (hosts == 0 || address > order_.hosts[hosts - 1].end) return;
    const HostRange& host = order_.hosts[hosts - 1];
    add(std::uint64_t{number_} << kNumberShift | (to_begin ? kToBegin : 0) | (host.first + address - host.begin));
  }

  // Each entry once.
  CULPRIT_DEVICE void add(std::uint64_t entry) {
    constexpr std::uint32_t kTries = 128;
    const std::uint64_t first = entry * 0x9e3779b97f4a7c15ULL >> 24;
    CULPRIT_ROLLED
    for (std::uint32_t i = 0; i < kTries; ++i) {
      std::uint64_t* slot = &order_.slots[(first + i) % kSlots];
      std::uint64_t present = Memory::load8(reinterpret_cast<std::uint64_t>(slot));
      if (present == 0) present = Memory::compare_exchange(slot, 0, entry);
      if (present == entry) return;
      if (present != 0) continue;
      const std::uint64_t place = Memory::add(&order_.counters->found, 1);
      if (place >= kMostFound) break;
      order_.list[place] = entry;
      return;
    }
    Memory::add(&order_.counters->full, 1);
  }

  // How many items of a sorted list have a key of at most `most`.
  template <typename Item, typename Key>
  CULPRIT_DEVICE static std::uint32_t count_until(const Item* list, std::uint32_t count, std::uint64_t most, Key key) {
    std::uint32_t low = 0;
    std::uint32_t high = count;
    CULPRIT_ROLLED
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (key(list[middle]) <= most) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  template <typename Item, typename Key>
  CULPRIT_DEVICE static std::uint32_t last_of(const Item* list, std::uint32_t count, std::uint64_t most, Key key) {
    return count_until(list, count, most, key) - 1;
  }

  const SearchOrder& order_;
  SearchedMemory memory_ = {};
  std::uint32_t number_ = 0;  // of the memory in the list
};

}  // namespace culprit
