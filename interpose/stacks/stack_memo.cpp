#include "interpose/stacks/stack_memo.h"

#include <atomic>
#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/system/clock.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/restrictions.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace culprit {

StackMemo::Comparison StackMemo::first_difference = StackMemo::first_difference_of_pairs;

CULPRIT_HOT const StackMemo::Block* StackMemo::first_difference_of_pairs(std::uint64_t base, const Block* block,
                                                                         const Block* end) {
  static_assert(kBlock == 8);
  for (; block != end; ++block) {
    using Pair = std::uint64_t __attribute__((vector_size(16), may_alias));
    // Loads dominate the cost: so load two offsets, and two values, at once.
    auto differ = [&](int place) {
      std::uint64_t offsets;
      std::memcpy(&offsets, block->offsets + place, sizeof(offsets));
      const Pair& expected = *reinterpret_cast<const Pair*>(block->values + place);
      std::uint64_t low = read(base + static_cast<std::uint32_t>(offsets));  // little-endian, as the dump is
      std::uint64_t high = read(base + (offsets >> 32));
      return Pair{low, high} ^ expected;
    };
    Pair different = (differ(0) | differ(2)) | (differ(4) | differ(6));
    if ((different[0] | different[1]) != 0) break;
  }
  return block;
}

#if defined(__x86_64__)

CULPRIT_HOT __attribute__((target("avx512f"))) const StackMemo::Block* StackMemo::first_difference_of_eights(
    std::uint64_t base, const Block* block, const Block* end) {
  for (; block != end; ++block) {
    __m256i offsets = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(block->offsets));
    // A gather of all eight; this form has no operand that the compiler believes to be uninitialized.
    __m512i found =
        _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), 0xff, offsets, reinterpret_cast<const void*>(base), 1);
    if (_mm512_cmpneq_epi64_mask(found, _mm512_loadu_si512(block->values)) != 0) break;
  }
  return block;
}

namespace {

// The answer of glibc's loader (from 2.33 on), which asked the processor at the program's start: struct cpuid_feature
// of <sys/platform/x86.h>, the registers of a leaf, and those of their bits that can be used. nullptr: not known.
struct LoaderFeatures {
  unsigned present[4];
  unsigned usable[4];
};
const LoaderFeatures* loader_features() {
  constexpr unsigned kLeaf7 = 1;  // CPUID_INDEX_7
  const LoaderFeatures* found = nullptr;
  any_module([&](const ElfModule& module, const struct dl_phdr_info&) {
    if (module.soname == nullptr || std::strncmp(module.soname, "ld-linux", 8) != 0) return false;
    const std::uint64_t address = find_symbol(module, "__x86_get_cpuid_feature_leaf");
    if (address != 0) found = reinterpret_cast<const LoaderFeatures* (*)(unsigned)>(address)(kLeaf7);
    return true;
  });
  return found;
}

// The program may have forbidden cpuid to its threads (arch_prctl: ARCH_SET_CPUID): it then raises SIGSEGV. A kernel
// without this call (before 4.12) cannot forbid it. Under a seccomp filter the call is not made.
bool may_ask_processor() {
  constexpr int kGetCpuid = 0x1011;  // ARCH_GET_CPUID
  return calls_restricted() || system_call(SYS_arch_prctl, kGetCpuid, 0) != 0;
}

// Whether processor and kernel have AVX-512F. Tested here instead of by libgcc, which would do it in every process at
// load: cpuid exits a virtual machine, 20 us each time.
bool has_avx512f() {
  constexpr unsigned kOsxsave = 1U << 27, kAvx512f = 1U << 16;
  if (const LoaderFeatures* features = loader_features()) return (features->usable[1] & kAvx512f) != 0;
  if (!may_ask_processor()) return false;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsxsave) == 0) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kSaved = 0xe6;  // the registers that the kernel saves: SSE, AVX, and all three parts of AVX-512
  return (low & kSaved) == kSaved && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kAvx512f) != 0;
}

}  // namespace

bool StackMemo::compare_eight(bool eight) {
  if (eight && !has_avx512f()) return false;
  const Comparison chosen = eight ? &first_difference_of_eights : &first_difference_of_pairs;
  __atomic_store_n(&first_difference, chosen, __ATOMIC_RELAXED);
  return true;
}

#else

const StackMemo::Block* StackMemo::first_difference_of_eights(std::uint64_t base, const Block* block,
                                                              const Block* end) {
  return first_difference_of_pairs(base, block, end);
}

bool StackMemo::compare_eight(bool eight) { return !eight; }

#endif

void StackMemo::choose_comparison() {
  // Slots with the distances of those of a stack, all of them equal to their checks.
  constexpr int kBlocks = 4;
  std::uint64_t stack[kBlocks * kBlock * 8] = {};
  Block blocks[kBlocks] = {};
  for (int i = 0; i < kBlocks * kBlock; ++i)
    blocks[i / kBlock].offsets[i % kBlock] = static_cast<std::uint32_t>(i * 8 * sizeof(stack[0]));
  auto cost = [&](bool eight) {
    if (!compare_eight(eight)) return ~std::uint64_t{0};
    return least_time(
        3, [] { return clock_ns(CLOCK_MONOTONIC); },
        [&] {
          for (int i = 0; i < 40; ++i) {
            const Block* volatile different =
                first_difference(reinterpret_cast<std::uint64_t>(stack), blocks, blocks + kBlocks);
            static_cast<void>(different);
          }
        });
  };
  std::uint64_t pairs = cost(false);
  compare_eight(cost(true) < pairs);
}

void StackMemo::forget_slots() {
  std::atomic_thread_fence(std::memory_order_release);
  for (std::uint32_t part = 0; part < 64; ++part) {
    for (std::uint32_t i = 0; i < kPart && (used_entries_ >> part & 1) != 0; ++i) entries_[part * kPart + i].stack = 0;
    for (std::uint32_t i = 0; i < kPart && (used_recent_ >> part & 1) != 0; ++i) recent_[part * kPart + i] = {};
  }
  used_entries_ = used_recent_ = 0;
  used_ = 0;
}

void StackMemo::note_seen(const std::uint64_t* frame, const Entry& entry) {
  const std::uint32_t slot = recent_slot(frame);
  const auto seen = static_cast<std::uint16_t>(&entry - entries_);
  used_recent_ |= std::uint64_t{1} << (slot / kPart);
  Recent& place = recent_[slot];
  if (place.frame == entry.frame) followers_[place.seen()] = seen;
  place.frame = entry.frame;
  place.generation = entry.generation;
  expect_next(&place, seen);
}

void StackMemo::advance(Recent* place) {
  // The entry may be another stack's by now. Then only this place has the stack, which the caller is about to use.
  if (entries_[place->expected].stack == place->stack) {
    expect_next(place, place->expected);
  } else {
    place->change = 0;
  }
}

void StackMemo::expect_next(Recent* place, std::uint16_t seen) {
  constexpr std::uint32_t kBytes = sizeof(Block);
  std::uint16_t next = followers_[seen];
  if (entries_[next].frame != place->frame || entries_[next].generation != place->generation ||
      entries_[next].stack == 0)
    next = seen;
  const Entry& entry = entries_[next];
  place->stack = entry.stack;
  place->begin = entry.first * kBytes;
  place->end = (entry.first + entry.count) * kBytes;
  place->path = entry.path;
  place->expected = next;
  place->change = next ^ seen;
}

const StackMemo::Entry* StackMemo::find(std::uint64_t key, std::uint64_t frame, std::uint32_t generation) const {
  const Entry* set = &entries_[slot_of(key) / kWays * kWays];
  for (const Entry* entry = set; entry != set + kWays; ++entry) {
    if (entry->key == key && entry->frame == frame && entry->generation == generation && entry->stack != 0)
      return entry;
  }
  return nullptr;
}

StackMemo::Entry* StackMemo::place_for(std::uint64_t key, std::uint32_t generation) {
  Entry* set = &entries_[slot_of(key) / kWays * kWays];
  Entry* place = &set[numbers_ % kWays];
  for (Entry* entry = set; entry != set + kWays; ++entry) {
    if (entry->stack == 0 || entry->generation != generation) place = entry;
  }
  for (Entry* entry = set; entry != set + kWays; ++entry) {
    if (entry->stack != 0 && entry->key == key) return entry;
  }
  return place;
}

format::Ref StackMemo::look_up_next(const std::uint64_t* frame, std::uint32_t generation, std::uint32_t* path,
                                    const Block* different) {
  std::uint64_t base = reinterpret_cast<std::uint64_t>(frame);
  const Entry* found = nullptr;
  Next* next = nullptr;
  std::uint64_t key = 0;
  if (different != nullptr) {
    std::uint32_t place = place_in(*different, base);
    // The block belongs to that stack alone.
    key = key_of(static_cast<std::uint64_t>(different - blocks_) << 3 | place, read(base + different->offsets[place]));
    next = &next_[slot_of(key)];
    const Entry& entry = entries_[next->entry];
    const Block* blocks = blocks_ + entry.first;
    const Block* end = blocks + entry.count;
    if (next->key == key && next->number == entry.number && entry.frame == base && entry.generation == generation &&
        entry.stack != 0 && first_difference(base, blocks, end) == end)
      found = &entry;
  }
  if (CULPRIT_UNLIKELY(found == nullptr)) {
    found = search(frame, generation);
    if (found == nullptr) return 0;
    if (next != nullptr) *next = {key, static_cast<std::uint32_t>(found - entries_), found->number};
  }
  note_seen(frame, *found);
  *path = found->path;
  return found->stack;
}

const StackMemo::Entry* StackMemo::search(const std::uint64_t* frame, std::uint32_t generation) {
  std::uint64_t base = reinterpret_cast<std::uint64_t>(frame);
  miss_ = {first_key(base, frame[1]), 0, 0, 0};
  for (int steps = 0; steps < kMostSteps; ++steps) {
    const Entry* found = find(miss_.key, base, generation);
    if (found == nullptr) break;
    const Entry& entry = *found;
    const Block* blocks = blocks_ + entry.first;
    const Block* different = first_difference(base, blocks + miss_.block, blocks + entry.count);
    if (different == blocks + entry.count) return found;
    miss_.block = static_cast<std::uint32_t>(different - blocks);
    miss_.place = place_in(*different, base);
    miss_.value = read(base + different->offsets[miss_.place]);
    miss_.key = next_key(entry, miss_);
  }
  return nullptr;
}

void StackMemo::remember(const std::uint64_t* frame, std::uint32_t generation, format::Ref stack, std::uint32_t path,
                         const StackChecks& checks) {
  if (!checks.complete) walks_.remember(frame, generation, stack, path, checks.words);
  if (!checks.complete || stack == 0) return;
  // An overwritten stack was copied to its users before: see stack_collection.h.
  std::atomic_thread_fence(std::memory_order_release);
  std::uint64_t base = reinterpret_cast<std::uint64_t>(frame);
  constexpr std::uint64_t kSmallestPage = 4096;
  auto slot_at = [&](int i) { return i == 0 ? base + 8 : checks.slots[i - 1]; };
  Block blocks[StackChecks::kMost + 1];
  std::uint32_t count = 0;
  for (int i = 0; i <= checks.count;) {
    Block& block = blocks[count++];
    std::uint64_t page = slot_at(i) / kSmallestPage;
    for (int used = 0; used < kBlock; ++used) {
      bool more = used == 0 || (i <= checks.count && slot_at(i) / kSmallestPage == page);
      if (!more) {
        block.offsets[used] = block.offsets[used - 1];
        block.values[used] = block.values[used - 1];
        continue;
      }
      std::uint64_t slot = slot_at(i++);
      // The stack is not contiguous (a coroutine, an alternate signal stack) or is larger than 2 GiB.
      if (slot < base || slot - base > 0x7fffffffULL) return;
      block.offsets[used] = static_cast<std::uint32_t>(slot - base);
      block.values[used] = read(slot);
    }
  }
  // The value that differed from the previous stack must be a check of this one, at the same place.
  if (miss_.value != 0 && (miss_.block >= count || blocks[miss_.block].values[miss_.place] != miss_.value)) return;
  if (used_ + count > kArenaBlocks) {
    forget_slots();
    miss_ = {first_key(base, frame[1]), 0, 0, 0};
  }
  Entry* entry = place_for(miss_.key, generation);
  used_entries_ |= std::uint64_t{1} << (static_cast<std::uint32_t>(entry - entries_) / kPart);
  *entry = {miss_.key, base, generation, stack, ++numbers_, used_, count, path};
  followers_[entry - entries_] = static_cast<std::uint16_t>(entry - entries_);
  for (std::uint32_t i = 0; i < count; ++i) blocks_[used_ + i] = blocks[i];
  used_ += count;
  note_seen(frame, *entry);
}

}  // namespace culprit
