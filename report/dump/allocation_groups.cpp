#include "report/dump/allocation_groups.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "report/base/parallel.h"
#include "report/dump/heap_steps.h"

namespace culprit::report {

using namespace format;

namespace {

struct Key {
  std::uint64_t place;  // stack, api, kind, device
  Ref evidence;
  bool free_failed;
  bool not_physical;
  Ref launch;
  const Variable* holder;
  bool operator==(const Key& other) const {
    return place == other.place && evidence == other.evidence && free_failed == other.free_failed &&
           not_physical == other.not_physical && launch == other.launch && holder == other.holder;
  }
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = (key.place ^ std::uint64_t{key.evidence} << 32) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32;
    hash ^= reinterpret_cast<std::uintptr_t>(key.holder) * 0x9e3779b97f4a7c15ULL >> 16;
    return hash + key.launch * 0x9e3779b1ULL + (key.free_failed ? 1 : 0) + (key.not_physical ? 2 : 0);
  }
};

bool is_launched(const AllocationRecord& record) {
  return record.kind == Kind::kGraphMemory && (record.flags & kFlagNotPhysical) == 0;
}

Key key_of(const AllocationRecord& record, const Variable* holder) {
  const std::uint64_t place = std::uint64_t{record.stack} << 32 | std::uint64_t{record.api} << 16 |
                              std::uint64_t{static_cast<std::uint8_t>(record.kind)} << 8 | record.device;
  return {place,
          record.evidence,
          (record.flags & kFlagFreeFailed) != 0,
          (record.flags & kFlagNotPhysical) != 0,
          is_launched(record) ? record.launched.stack : 0,
          holder};
}

// Caches whether each thread has ended, so that the dump is asked once per thread.
class EndedThreads {
 public:
  explicit EndedThreads(const Dump& dump) : dump_(dump) {}
  bool ended(std::uint32_t index) {
    if (index >= AllocationGroup::kMostKnownThreads) return false;
    if (index >= known_.size()) known_.resize(index + 1, kUnknown);
    if (known_[index] == kUnknown) {
      ThreadRecord record;
      known_[index] = dump_.thread(index, &record) && record.state == ThreadState::kEnded ? kEnded : kNotEnded;
    }
    return known_[index] == kEnded;
  }

 private:
  enum : char { kUnknown, kNotEnded, kEnded };
  const Dump& dump_;
  std::vector<char> known_;
};

void add_thread(std::vector<std::uint32_t>* threads, std::uint32_t thread) {
  const auto at = std::lower_bound(threads->begin(), threads->end(), thread);
  if (at != threads->end() && *at == thread) return;
  if (threads->size() < AllocationGroup::kMostThreads) threads->insert(at, thread);
}

// Adds the regions that a record stands for, or that lie in its memory.
void add_regions(const RegionMap& regions, const AllocationRecord& record, Ref ref, AllocationGroup* group) {
  if (record.kind == Kind::kRegion) {
    group->region_bytes += record.bytes;
    if (record.announced.name != 0) ++group->names[record.announced.name];
    return;
  }
  if (const auto* heaps = regions.heaps_of(ref)) group->heaps.insert(group->heaps.end(), heaps->begin(), heaps->end());
  const auto add = [](const std::vector<Ref>* names, std::map<Ref, std::uint64_t>* counts) {
    if (names == nullptr) return;
    for (const Ref name : *names) ++(*counts)[name];
  };
  add(regions.names_of(ref), &group->names);
  add(regions.names_in(ref), &group->region_names);
}

// The groups of one worker thread's share of the stacks.
struct Part {
  std::vector<AllocationGroup> groups;
  std::vector<Ref> first;  // the first record of each group
};

// Every worker walks all records, because reading them in file order is cheap; only adding them up is divided.
Part group_part(const Dump& dump, const RegionMap& regions, const std::vector<Held>& held,
                const std::vector<HolderRecord>& lost, bool only_lost, const TimeRange& range, bool each, unsigned part,
                unsigned parts) {
  Part result;
  std::unordered_map<Key, std::size_t, KeyHash> index;
  EndedThreads threads(dump);
  auto next_held = held.begin();
  auto next_lost = lost.begin();
  dump.for_each_allocation([&](AllocationRecord record, Ref ref) {
    if (!range.has(record.time_ns)) return;
    if (parts > 1 && (record.stack * 0x9e3779b1U >> 16) % parts != part) return;
    const OuterAllocation* outer = record.kind == Kind::kRegion ? regions.outer_of(ref) : nullptr;
    if (record.kind == Kind::kRegion && outer == nullptr) return;
    if (outer != nullptr) record.device = outer->record.device;
    while (next_held != held.end() && next_held->allocation < ref) ++next_held;
    const Variable* holder = nullptr;
    std::uint64_t holder_place = 0;
    const std::string* holder_path = nullptr;
    const AssignedPlace* assigned = nullptr;
    for (auto one = next_held; holder == nullptr && one != held.end() && one->allocation == ref; ++one) {
      if (one->generation != record.state >> kStateBits) continue;
      holder = one->variable;
      holder_place = one->place;
      holder_path = one->path;
      assigned = one->assigned;
    }
    while (next_lost != lost.end() && next_lost->allocation < ref) ++next_lost;
    // A variable that still has the pointer, or a Python object, refutes it.
    const bool is_lost = holder == nullptr && next_lost != lost.end() && next_lost->allocation == ref &&
                         next_lost->state >> kStateBits == record.state >> kStateBits;
    if (only_lost && !is_lost) return;
    const Key key = key_of(record, holder);
    const auto [at, added] = index.try_emplace(key, result.groups.size());
    if (added) {
      AllocationGroup group;
      group.stack = record.stack;
      group.kind = record.kind;
      group.device = record.device;
      group.api = record.api;
      group.evidence = key.evidence;
      group.free_failed = key.free_failed;
      group.not_physical = key.not_physical;
      group.launch = key.launch;
      group.holder = holder;
      group.holder_place = holder_place;
      group.holder_path = holder_path;
      group.assigned = assigned;
      group.first_ns = record.time_ns;
      if (outer != nullptr) group.outer = *outer;
      result.groups.push_back(std::move(group));
      result.first.push_back(ref);
    }
    AllocationGroup& group = result.groups[at->second];
    ++group.count;
    if (is_lost) {
      ++group.lost;
      group.lost_now = only_lost;
      if (next_lost->place == kOnlyLostPointerLeft) ++group.lost_indirectly;
    }
    if (!group.not_physical) group.bytes += record.bytes;
    if (!group.not_physical && threads.ended(record.thread)) group.ended_bytes += record.bytes;
    group.first_ns = std::min(group.first_ns, record.time_ns);
    group.last_ns = std::max(group.last_ns, record.time_ns);
    add_thread(&group.threads, record.thread);
    if (group.handles.size() < AllocationGroup::kListed) group.handles.push_back(record.handle);
    if (each && record.bytes != 0 && !group.not_physical) group.each.push_back({record.handle, record.bytes});
    if (record.label != 0 && record.kind != Kind::kVmmMapping) {
      LabelShare& share = group.labels[record.label];
      ++share.count;
      if (!group.not_physical) share.bytes += record.bytes;
    }
    add_regions(regions, record, ref, &group);
    if (record.kind == Kind::kGraphMemory && key.not_physical && record.launched.times != 0) ++group.waiting;
    if (is_launched(record)) group.launches = std::max<std::uint64_t>(group.launches, record.launched.times);
    group.mappings += record.mappings;
    group.handle_references += record.handle_references;
  });
  return result;
}

// Where the way to a place in the heap begins.
std::uint64_t first_place(const Dump& dump, const HeapPlace& place) {
  const std::vector<HeapStepRecord> steps = steps_to(dump, place.step);
  return steps.empty() ? 0 : steps.front().at;
}

bool says_lost(const HolderRecord& record) {
  return record.place == kNoPointerLeft || record.place == kOnlyLostPointerLeft;
}

// Sorted by allocation.
std::vector<HolderRecord> read_lost(const Dump& dump, const OnlyLost& only) {
  std::vector<HolderRecord> lost;
  for (const HolderRecord& record : only ? only->lost : dump.holders()) {
    if (says_lost(record)) lost.push_back(record);
  }
  std::stable_sort(lost.begin(), lost.end(), [](const HolderRecord& left, const HolderRecord& right) {
    return left.allocation < right.allocation;
  });
  return lost;
}

}  // namespace

std::vector<Held> read_held(const Dump& dump) {
  std::vector<Held> held;
  for (const HolderRecord& record : dump.holders()) {
    if (says_lost(record)) continue;
    held.push_back({record.allocation, record.state >> kStateBits, record.place, nullptr, {}, nullptr, nullptr});
  }
  for (const HeapHolderRecord& record : dump.heap_holders()) {
    const HeapPlace place = {record.step, record.word & ~kHeapMiddle};
    const std::uint64_t middle = (record.word & kHeapMiddle) != 0 ? kHolderMiddle : 0;
    held.push_back({record.allocation, record.state >> kStateBits, first_place(dump, place) | middle, nullptr, place,
                    nullptr, nullptr});
  }
  // The handle itself comes before a pointer into the middle.
  std::stable_sort(held.begin(), held.end(), [](const Held& left, const Held& right) {
    return std::make_pair(left.allocation, left.place & kHolderMiddle) <
           std::make_pair(right.allocation, right.place & kHolderMiddle);
  });
  return held;
}

std::vector<AllocationGroup> group_allocations(const Dump& dump, const std::vector<Held>& held, const TimeRange& range,
                                               bool each, const OnlyLost& only_lost) {
  const RegionMap regions(dump);
  const std::vector<HolderRecord> lost = read_lost(dump, only_lost);
  const unsigned count = std::min(4U, threads_for(dump.allocation_records() / 10));
  if (count == 1) return group_part(dump, regions, held, lost, only_lost.has_value(), range, each, 0, 1).groups;
  std::vector<Part> parts(count);
  std::atomic<unsigned> next{0};
  run_on_threads(count, [&] {
    const unsigned part = next++;
    parts[part] = group_part(dump, regions, held, lost, only_lost.has_value(), range, each, part, count);
  });
  // Restores the order of first appearance.
  struct Place {
    Ref first;
    AllocationGroup* group;
  };
  std::vector<Place> order;
  for (Part& part : parts) {
    for (std::size_t i = 0; i < part.groups.size(); ++i) order.push_back({part.first[i], &part.groups[i]});
  }
  std::sort(order.begin(), order.end(), [](const Place& left, const Place& right) { return left.first < right.first; });
  std::vector<AllocationGroup> groups;
  groups.reserve(order.size());
  for (const Place& place : order) groups.push_back(std::move(*place.group));
  return groups;
}

}  // namespace culprit::report
