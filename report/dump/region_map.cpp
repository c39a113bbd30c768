#include "report/dump/region_map.h"

#include <algorithm>
#include <map>
#include <utility>

#include "interpose/format/array_layout.h"

namespace culprit::report {

using namespace format;

namespace {

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Range range_of(std::uint64_t begin, std::uint64_t bytes) {
  return {begin, bytes > ~begin ? ~std::uint64_t{0} : begin + bytes};
}

// The size of what has addresses, or places; 0 for everything else.
std::uint64_t addressed_bytes(const AllocationRecord& record) {
  switch (record.kind) {
    case Kind::kDevice:
    case Kind::kManaged:
    case Kind::kPitched:
    case Kind::kPinnedHost:
    case Kind::kRegisteredHost:
    case Kind::kStreamOrdered:
    case Kind::kGraphMemory:
    case Kind::kArray:
      return record.bytes;
    case Kind::kVmmMapping:
    case Kind::kExternalBuffer:
      return record.extra;
    default:
      return 0;
  }
}

struct Addressed {
  Range range;
  OuterAllocation allocation;
};

struct Announced {
  Range range;
  std::uint64_t time_ns = 0;
  Ref ref = 0;
  Ref name = 0;
  Ref heap = 0;
};

Announced announced(const AllocationRecord& record, Ref ref) {
  return {range_of(record.handle, record.bytes), record.time_ns, ref, record.announced.name, record.announced.heap};
}

// The allocations of a dump that has regions or heaps, by address.
class Allocations {
 public:
  explicit Allocations(const Dump& dump) {
    std::unordered_map<Ref, AllocationRecord> physical;
    dump.for_each_allocation([&](const AllocationRecord& record, Ref ref) {
      if (record.kind == Kind::kVmmPhysical) physical.emplace(ref, record);
      const std::uint64_t bytes = addressed_bytes(record);
      if (bytes != 0) all_.push_back({range_of(begin_of(record, ref), bytes), {record, ref}});
    });
    // The bytes of a mapping are counted with the physical memory.
    for (Addressed& one : all_) {
      if (one.allocation.record.kind != Kind::kVmmMapping) continue;
      const auto memory = physical.find(one.allocation.record.physical);
      if (memory != physical.end()) one.allocation = {memory->second, memory->first};
    }
    std::sort(all_.begin(), all_.end(),
              [](const Addressed& left, const Addressed& right) { return left.range.begin < right.range.begin; });
  }

  // The index of the allocation in which `one` begins; size() = none. An allocation that is newer has the address of an
  // earlier one, which was freed.
  std::size_t find(const Announced& one) const {
    auto at =
        std::upper_bound(all_.begin(), all_.end(), one.range.begin,
                         [](std::uint64_t address, const Addressed& other) { return address < other.range.begin; });
    if (at == all_.begin()) return all_.size();
    --at;
    if (one.range.begin >= at->range.end || at->allocation.record.time_ns > one.time_ns) return all_.size();
    return static_cast<std::size_t>(at - all_.begin());
  }
  std::size_t size() const { return all_.size(); }
  const Addressed& operator[](std::size_t index) const { return all_[index]; }

 private:
  std::vector<Addressed> all_;
};

// How regions, in any order, use a range.
HeapRecordUse use_of(Range range, std::vector<Range> regions) {
  HeapRecordUse use;
  use.bytes = range.end - range.begin;
  use.regions = regions.size();
  std::sort(regions.begin(), regions.end(),
            [](const Range& left, const Range& right) { return left.begin < right.begin; });
  std::uint64_t reached = range.begin;
  for (const Range& region : regions) {
    const std::uint64_t begin = std::min(std::max(region.begin, reached), range.end);
    const std::uint64_t end = std::min(std::max(region.end, reached), range.end);
    use.largest_hole = std::max(use.largest_hole, begin - reached);
    use.used_bytes += end - begin;
    reached = end;
  }
  use.largest_hole = std::max(use.largest_hole, range.end - reached);
  return use;
}

// nullptr: there is none.
template <typename Value>
const Value* find_in(const std::unordered_map<Ref, Value>& values, Ref key) {
  const auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second;
}

}  // namespace

RegionMap::RegionMap(const Dump& dump) {
  std::vector<Announced> regions;
  std::map<Ref, Announced> heaps;
  dump.for_each_allocation([&](const AllocationRecord& record, Ref ref) {
    if (record.kind == Kind::kRegion) regions.push_back(announced(record, ref));
    if (record.kind == Kind::kHeap) heaps.emplace(ref, announced(record, ref));
  });
  if (regions.empty() && heaps.empty()) return;
  const Allocations allocations(dump);

  // The regions of each heap in each allocation; heap 0: of none.
  std::map<std::pair<std::size_t, Ref>, std::vector<Range>> spaces;
  for (const auto& [ref, heap] : heaps) {
    const std::size_t outer = allocations.find(heap);
    if (outer == allocations.size()) continue;
    if (heap.range.begin != heap.range.end) {
      spaces[{outer, ref}];
    } else {
      names_[allocations[outer].allocation.ref].push_back(heap.name);  // of the allocation itself
    }
  }
  std::vector<std::size_t> outers;  // of each region
  std::vector<std::size_t> counts(allocations.size() + 1);
  for (const Announced& region : regions) ++counts[outers.emplace_back(allocations.find(region))];
  std::unordered_map<std::size_t, std::size_t> known;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const Announced& region = regions[i];
    const std::size_t outer = outers[i];
    if (outer == allocations.size()) continue;
    const auto [at, added] = known.emplace(outer, outer_.size());
    if (added) outer_.push_back(allocations[outer].allocation);
    outer_of_[region.ref] = at->second;
    const bool stands_for_all =
        counts[outer] == 1 && region.range.begin == allocations[outer].range.begin && region.heap == 0;
    if (region.name != 0)
      (stands_for_all ? names_ : inner_names_)[allocations[outer].allocation.ref].push_back(region.name);
    const bool in_heap = spaces.find({outer, region.heap}) != spaces.end();
    spaces[{outer, in_heap ? region.heap : 0}].push_back(region.range);
  }
  for (auto& [key, ranges] : spaces) {
    const Addressed& outer = allocations[key.first];
    Range range = outer.range;
    const auto heap = heaps.find(key.second);
    if (heap != heaps.end()) range = {heap->second.range.begin, std::min(heap->second.range.end, outer.range.end)};
    HeapRecordUse use = use_of(range, std::move(ranges));
    use.name = heap != heaps.end() ? heap->second.name : 0;
    heaps_[outer.allocation.ref].push_back(use);
  }
}

const OuterAllocation* RegionMap::outer_of(Ref region) const {
  const auto found = outer_of_.find(region);
  return found == outer_of_.end() ? nullptr : &outer_[found->second];
}

const std::vector<HeapRecordUse>* RegionMap::heaps_of(Ref allocation) const { return find_in(heaps_, allocation); }

const std::vector<Ref>* RegionMap::names_of(Ref allocation) const { return find_in(names_, allocation); }

const std::vector<Ref>* RegionMap::names_in(Ref allocation) const { return find_in(inner_names_, allocation); }

}  // namespace culprit::report
