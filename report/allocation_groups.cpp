#include "report/allocation_groups.h"

#include <algorithm>
#include <unordered_map>

namespace culprit {

using namespace format;

namespace {

struct Key {
  std::uint64_t place;  // stack, api, kind, device
  Ref evidence;
  bool free_failed;
  bool not_physical;
  bool operator==(const Key& other) const {
    return place == other.place && evidence == other.evidence && free_failed == other.free_failed &&
           not_physical == other.not_physical;
  }
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = (key.place ^ std::uint64_t{key.evidence} << 32) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32;
    return hash + (key.free_failed ? 1 : 0) + (key.not_physical ? 2 : 0);
  }
};

Key key_of(const AllocationRecord& record) {
  const std::uint64_t place = std::uint64_t{record.stack} << 32 | std::uint64_t{record.api} << 16 |
                              std::uint64_t{static_cast<std::uint8_t>(record.kind)} << 8 | record.device;
  return {place, record.evidence, (record.flags & kFlagFreeFailed) != 0, (record.flags & kFlagNotPhysical) != 0};
}

void add_thread(std::vector<std::uint32_t>* threads, std::uint32_t thread) {
  const auto at = std::lower_bound(threads->begin(), threads->end(), thread);
  if (at != threads->end() && *at == thread) return;
  if (threads->size() < AllocationGroup::kMostThreads) threads->insert(at, thread);
}

}  // namespace

std::vector<AllocationGroup> group_allocations(const Dump& dump) {
  std::vector<AllocationGroup> groups;
  std::unordered_map<Key, std::size_t, KeyHash> index;
  dump.for_each_allocation([&](const AllocationRecord& record) {
    const Key key = key_of(record);
    const auto [at, added] = index.emplace(key, groups.size());
    if (added) {
      AllocationGroup group;
      group.stack = record.stack;
      group.kind = record.kind;
      group.device = record.device;
      group.api = record.api;
      group.evidence = key.evidence;
      group.free_failed = key.free_failed;
      group.not_physical = key.not_physical;
      group.first_ns = record.time_ns;
      groups.push_back(std::move(group));
    }
    AllocationGroup& group = groups[at->second];
    ++group.count;
    if (!group.not_physical) group.bytes += record.bytes;
    group.first_ns = std::min(group.first_ns, record.time_ns);
    group.last_ns = std::max(group.last_ns, record.time_ns);
    add_thread(&group.threads, record.thread);
    if (group.handles.size() < AllocationGroup::kListed) group.handles.push_back(record.handle);
    group.mappings += record.mappings;
    group.handle_references += record.handle_references;
  });
  return groups;
}

}  // namespace culprit
