// Announced regions: what they are called, what they lie in, and how they use it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "interpose/format/dump_file.h"

namespace culprit::report {

class Dump;
struct AllocationGroup;

// The allocations or regions of a group, or the regions in its memory, that have one name.
struct NameShare {
  std::string name;
  std::uint64_t count = 0;
};

// Announced heaps of one name, in the allocations of a group; without a name: allocations whose regions were announced
// in no heap.
struct HeapUse {
  std::string name;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t used_bytes = 0;    // by regions
  std::uint64_t largest_hole = 0;  // of all of them
  std::uint64_t regions = 0;
};

// The allocation that the first region of a group lies in. No api: it is no region.
struct Outside {
  std::string api;
  std::uint64_t bytes = 0;
  std::string place;  // "pool.cpp:20  make_pool"
};

// `counts`: by MarkRecord. Most frequent first.
std::vector<NameShare> name_shares(const Dump& dump, const std::map<format::Ref, std::uint64_t>& counts);
// By name.
std::vector<HeapUse> heap_uses(const Dump& dump, const AllocationGroup& group);

// Add those of one group to those of another.
void merge_names(const std::vector<NameShare>& from, std::vector<NameShare>* into);
void merge_heaps(const std::vector<HeapUse>& from, std::vector<HeapUse>* into);

// ""View a" (3x); "View b"; and 2 more"; "" without names. `count`: of the regions or allocations in all.
std::string names_text(const std::vector<NameShare>& names, std::uint64_t count);
// "48.0 MiB of 64.0 MiB in 3 regions, 16.0 MiB idle, largest hole 8.00 MiB"
std::string heap_text(const HeapUse& heap);

}  // namespace culprit::report
