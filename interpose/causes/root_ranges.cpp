#include "interpose/causes/root_ranges.h"

#include <algorithm>

#include "interpose/base/module_name.h"
#include "interpose/base/own_module.h"
#include "interpose/causes/driver_threads.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/memory_map.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/own_ranges.h"

namespace culprit {
namespace {

constexpr std::uint64_t kMostModules = 1 << 14;
constexpr std::uint64_t kPage = 4096;

// A larger reservation is taken for one without memory: the driver reserves the addresses of all devices.
constexpr std::uint64_t kMostUnreadable = 4ULL << 30;

bool is_runtime(const char* path) { return begins_with(file_name(path), "libcudart"); }

// Whether the driver handed out addresses in this mapping: then it is the driver's, and holds memory of devices only.
bool is_of_devices(const Mapping& mapping, const GpuBlocks& gpu) {
  for (std::uint32_t i = 0; i < gpu.size(); ++i) {
    if (!gpu[i].is_in_host_memory() && gpu[i].begin >= mapping.begin && gpu[i].begin < mapping.end) return true;
  }
  return false;
}

// glibc, malloc/malloc.c: struct malloc_state has 127 lists of free chunks, each a pair of pointers. Those of an empty
// list point 16 bytes before themselves.
constexpr std::uint64_t kList = 16;
constexpr std::uint64_t kLists = 127;
constexpr std::uint64_t kLeastEmpty = 64;    // so many are a proof
constexpr std::uint64_t kBeforeLists = 112;  // a lock, flags, 10 more lists, the top chunk, the last remainder

// The first arena of malloc, in the data of libc: its pointers lead to free chunks only, and to the headers between
// chunks. The last list, of chunks of 512 KiB and more, is nearly always empty; else the arena is not found, and
// counts as data of the program.
struct Arena {
  std::uint64_t last = 0;
  std::uint64_t empty = 0;

  void look_at(const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
    for (std::uint64_t i = 0; i + 1 < count; ++i) {
      const std::uint64_t place = address + i * sizeof(words[0]);
      if (words[i] != place - kList || words[i + 1] != words[i]) continue;
      ++empty;
      last = place;
    }
  }
};

// The page behind a module's data if `address` lies in its data; else `address`.
std::uint64_t page_behind_module(std::uint64_t address) {
  struct dl_phdr_info module = {};
  MemoryRange extent = {};
  if (!find_module(address, &module) || !module_extent(module, &extent.begin, &extent.end)) return address;
  return std::max(address, (extent.end + kPage - 1) / kPage * kPage);
}

}  // namespace

// The part of libc's data that is no root; empty if it is not found.
RootRanges::Skip RootRanges::first_arena() {
  Arena arena;
  any_loaded_module([&](const struct dl_phdr_info& module) {
    if (!is_libc(module.dlpi_name)) return false;
    for_each_data_range(module, [&](std::uint64_t begin, std::uint64_t end) {
      const MemoryRange range = {begin, end};
      read_written_memory(
          &range, 1, ~std::uint64_t{0},
          [](void* found, const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
            static_cast<Arena*>(found)->look_at(words, count, address);
            return true;
          },
          &arena);
    });
    return true;
  });
  if (arena.empty < kLeastEmpty) return {};
  const std::uint64_t first = arena.last - (kLists - 1) * kList;
  return {first - kBeforeLists, arena.last + kList};
}

bool RootRanges::collect_skips(const GpuBlocks& gpu) {
  std::uint64_t room = kMostOwnRanges + kMostModules + 1 + gpu.size();
  for (const LeftOut& one : left_out_) room += one.count;
  int error = 0;
  skip_bytes_ = room * sizeof(Skip);
  skips_ = static_cast<Skip*>(map_private(skip_bytes_, &error));
  auto* own = static_cast<OwnRange*>(map_private(kMostOwnRanges * sizeof(OwnRange), &error));
  if (skips_ == nullptr || own == nullptr) return false;
  const int own_count = sorted_own_ranges(own);
  for (int i = 0; i < own_count; ++i) skips_[skip_count_++] = {own[i].begin, own[i].end};
  unmap_private(own, kMostOwnRanges * sizeof(OwnRange));
  any_loaded_module([&](const struct dl_phdr_info& module) {
    Skip extent = {};
    if (!module_extent(module, &extent.begin, &extent.end) || skip_count_ == kMostOwnRanges + kMostModules)
      return false;
    if (in_own_module(extent.begin) || is_driver_library(module.dlpi_name) || is_runtime(module.dlpi_name))
      skips_[skip_count_++] = extent;
    return false;
  });
  const Skip arena = first_arena();
  if (arena.begin != arena.end) skips_[skip_count_++] = arena;
  // Those in the heap are chunks as well, and are not left out: a chunk is read only if something leads to it.
  for (std::uint32_t i = 0; i < gpu.size(); ++i) skips_[skip_count_++] = {gpu[i].begin, gpu[i].end};
  for (const LeftOut& one : left_out_) {
    for (std::uint64_t i = 0; i < one.count; ++i) skips_[skip_count_++] = {one.list[i].begin, one.list[i].end};
  }
  std::sort(skips_, skips_ + skip_count_, [](const Skip& one, const Skip& other) { return one.begin < other.begin; });
  join_skips();
  return true;
}

// Some lie in others.
void RootRanges::join_skips() {
  std::uint64_t kept = 0;
  for (std::uint64_t i = 0; i < skip_count_; ++i) {
    if (kept != 0 && skips_[i].begin <= skips_[kept - 1].end) {
      skips_[kept - 1].end = std::max(skips_[kept - 1].end, skips_[i].end);
    } else {
      skips_[kept++] = skips_[i];
    }
  }
  skip_count_ = kept;
}

// The first range that ends behind `address`.
const RootRanges::Skip* RootRanges::skip_behind(std::uint64_t address) const {
  return std::upper_bound(skips_, skips_ + skip_count_, address,
                          [](std::uint64_t wanted, const Skip& one) { return wanted < one.end; });
}

// Divides private memory into chunks of malloc and the rest. Behind a range that is left out, and behind the data of a
// module, another mapping may begin, which the kernel has joined with this one: malloc's chunks are looked for there,
// too. Those with a mapping of their own begin with a page; the ranges need not.
void RootRanges::add_private(std::uint64_t begin, std::uint64_t end, HeapBlocks* blocks) {
  const auto rest = [&](std::uint64_t from, std::uint64_t to) {
    if (from < to) add({from, to, false, true});
  };
  while (begin < end) {
    const Skip* skip = skip_behind(begin);
    const bool skips = skip != skips_ + skip_count_ && skip->begin < end;
    const std::uint64_t behind = page_behind_module(begin);
    const bool of_module = behind > begin;
    const std::uint64_t until = skips ? std::max(begin, skip->begin) : end;
    const std::uint64_t stop = of_module ? std::min(until, behind) : until;
    const std::uint64_t first_page = (begin + kPage - 1) / kPage * kPage;
    const std::uint64_t last_page = stop / kPage * kPage;
    if (!of_module && first_page < last_page) {
      rest(begin, first_page);
      blocks->add_mapping({first_page, last_page}, rest);
      rest(last_page, stop);
    } else {
      rest(begin, stop);
    }
    begin = stop < until ? stop : skips ? std::max(begin, skip->end) : end;
  }
}

void RootRanges::add(const RootRange& range) {
  std::uint64_t begin = range.begin;
  const std::uint64_t end = range.end;
  const Skip* skip = std::upper_bound(skips_, skips_ + skip_count_, begin,
                                      [](std::uint64_t wanted, const Skip& one) { return wanted < one.begin; });
  if (skip != skips_) --skip;
  for (; begin < end; ++skip) {
    while (skip != skips_ + skip_count_ && skip->end <= begin) ++skip;
    const bool last = skip == skips_ + skip_count_ || skip->begin >= end;
    const std::uint64_t stop = last ? end : skip->begin;
    if (stop > begin) {
      if (count_ == kMost) {
        full_ = true;
        return;
      }
      // A pointer may lie across the border of two ranges.
      constexpr std::uint64_t kBytesBefore = sizeof(std::uint64_t) - 1;
      const bool continues =
          count_ != 0 && list_[count_ - 1].end == begin && list_[count_ - 1].readable && range.readable;
      list_[count_++] = {continues ? begin - kBytesBefore : begin, stop, range.shared, range.readable};
    }
    if (last) return;
    begin = std::max(begin, skip->end);
  }
}

bool RootRanges::collect(const MemoryMap& map, std::uint64_t stack_pointer, const GpuBlocks& gpu, HeapBlocks* blocks) {
  int error = 0;
  list_ = static_cast<RootRange*>(map_private(kMost * sizeof(RootRange), &error));
  if (list_ == nullptr || !collect_skips(gpu)) return false;
  for (const Mapping* mapping = map.begin(); mapping != map.end() && !full_; ++mapping) {
    const bool readable = (mapping->protection & PROT_READ) != 0;
    const bool shared = mapping->shared;
    if (mapping->kernel || mapping->nvidia || is_of_devices(*mapping, gpu)) continue;
    if (!readable && mapping->end - mapping->begin > kMostUnreadable) continue;
    if (mapping->program_break && readable) {
      MemoryRange heap = {mapping->begin, mapping->end};
      while (mapping + 1 != map.end() && mapping[1].program_break && mapping[1].begin == heap.end)
        heap.end = (++mapping)->end;
      if (!blocks->add_break_heap(heap)) return false;
      continue;
    }
    const bool on_stack = mapping->main_stack && stack_pointer >= mapping->begin && stack_pointer < mapping->end;
    const std::uint64_t begin = on_stack ? stack_pointer / 8 * 8 : mapping->begin;
    constexpr int kWritable = PROT_READ | PROT_WRITE;
    if (shared || mapping->file || on_stack || (mapping->protection & kWritable) != kWritable) {
      add({begin, mapping->end, shared, readable});
    } else {
      add_private(begin, mapping->end, blocks);
    }
  }
  return !full_ && !blocks->is_full();
}

void RootRanges::close() {
  if (list_ != nullptr) unmap_private(list_, kMost * sizeof(RootRange));
  if (skips_ != nullptr) unmap_private(skips_, skip_bytes_);
  list_ = nullptr;
  skips_ = nullptr;
}

}  // namespace culprit
