#include "report/model/sum_up.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "report/cuda/kinds.h"
#include "report/model/group_names.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

void add_cached(const Group& group, Summary* summary) {
  summary->cached_bytes += group.bytes;
  std::vector<CacheTotal>& caches = summary->caches;
  auto at =
      std::find_if(caches.begin(), caches.end(), [&](const CacheTotal& cache) { return cache.pool == group.pool; });
  if (at == caches.end()) at = caches.insert(caches.end(), CacheTotal{group.pool, 0, 0});
  at->bytes += group.bytes;
  at->segments += group.count;
}

}  // namespace

bool counts_as_leak(const Group& group, bool strict) { return strict || group.cause != Cause::kCached; }

// Groups are large, so each is moved once, in the circles of the permutation.
void sort_groups(std::vector<Group>* groups) {
  std::vector<Group>& list = *groups;
  std::vector<std::size_t> from(list.size());  // by the new index
  std::iota(from.begin(), from.end(), std::size_t{0});
  std::stable_sort(from.begin(), from.end(), [&list](std::size_t left_index, std::size_t right_index) {
    const Group& left = list[left_index];
    const Group& right = list[right_index];
    if (left.bytes != right.bytes) return left.bytes > right.bytes;
    if (left.region_bytes != right.region_bytes) return left.region_bytes > right.region_bytes;
    if (left.count != right.count) return left.count > right.count;
    if (left.id != right.id) return left.id < right.id;
    return earlier_in_code(left, right);
  });
  for (std::size_t first = 0; first < from.size(); ++first) {
    if (from[first] == first) continue;
    Group kept = std::move(list[first]);
    std::size_t to = first;
    while (from[to] != first) {
      const std::size_t next = from[to];
      list[to] = std::move(list[next]);
      from[to] = to;
      to = next;
    }
    list[to] = std::move(kept);
    from[to] = to;
  }
}

void sum_up(bool strict, Report* report) {
  Summary& summary = report->summary;
  summary.leaked_bytes = summary.leaked_device_bytes = summary.leaked_host_bytes = 0;
  summary.leaked_allocations = summary.groups = summary.cached_bytes = summary.thread_ended_bytes = 0;
  summary.library_bytes = summary.library_allocations = summary.errors = summary.resources = 0;
  summary.failed_allocations = 0;
  summary.caches.clear();
  summary.totals.clear();

  for (JobProcess& process : report->job) process.leaked_bytes = process.leaked_allocations = 0;

  std::map<std::pair<std::optional<unsigned>, format::Kind>, Total> totals;
  for (const Group& group : report->leaks) {
    if (group.cause == Cause::kCached) add_cached(group, &summary);
    if (!counts_as_leak(group, strict)) continue;
    const bool host = kind_class(group.kind) == KindClass::kHostMemory;
    (host ? summary.leaked_host_bytes : summary.leaked_device_bytes) += group.bytes;
    summary.leaked_bytes += group.bytes;
    summary.leaked_allocations += group.count;
    summary.thread_ended_bytes += group.ended_bytes;
    ++summary.groups;
    for (const Share& share : group.shares) {
      report->job[share.process].leaked_bytes += share.bytes;
      report->job[share.process].leaked_allocations += share.count;
    }
    Total& total = totals[{host ? std::nullopt : group.device, group.kind}];
    total.device = host ? std::nullopt : group.device;
    total.kind = group.kind;
    total.bytes += group.bytes;
    total.region_bytes += group.region_bytes;
    total.count += group.count;
  }
  std::stable_sort(summary.caches.begin(), summary.caches.end(),
                   [](const CacheTotal& left, const CacheTotal& right) { return left.bytes > right.bytes; });
  for (const auto& [key, total] : totals) summary.totals.push_back(total);
  for (const Group& group : report->library) {
    summary.library_bytes += group.bytes;
    summary.library_allocations += group.count;
  }
  for (const Group& group : report->resources) {
    if (group.library.empty()) summary.resources += group.count;
  }
  for (const ErrorGroup& error : report->errors) summary.errors += error.count;
  for (const FailedAllocation& failed : report->failed_allocations) summary.failed_allocations += failed.count;
}

}  // namespace culprit::report
