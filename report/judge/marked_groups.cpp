#include "report/judge/marked_groups.h"

#include <utility>

#include "report/judge/judge.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

std::vector<Group> groups_of(std::vector<AllocationGroup> allocations, const Dump& dump, const StackResolver& stacks,
                             StackOwners* owners) {
  Tables tables = {};
  tables.allocations = std::move(allocations);
  tables.range.since_ns = 1;  // the counts of the whole run say nothing about a moment
  JudgeOptions options;
  options.default_suppressions = false;
  return judge(tables, dump, stacks, options, owners).leaks;
}

std::vector<AllocationGroup> allocations_of(const MarkSums& sums) {
  std::vector<AllocationGroup> allocations;
  for (const format::MarkSumShare& share : sums.shares) {
    AllocationGroup group;
    group.stack = share.stack;
    group.kind = share.kind;
    group.api = share.api;
    group.device = share.device;
    group.bytes = share.bytes;
    group.count = share.count;
    allocations.push_back(std::move(group));
  }
  return allocations;
}

}  // namespace

void add_marked_groups(const KeptMarkSums& kept, const Tables& tables, const Dump& dump, const StackResolver& stacks,
                       StackOwners* owners, Report* report) {
  for (std::size_t i = 0; i < kept.sums.size() && i < report->marked.size(); ++i)
    report->marked[i].groups = groups_of(allocations_of(kept.sums[i]), dump, stacks, owners);
  std::vector<AllocationGroup> now;
  for (const AllocationGroup& group : tables.allocations) {
    if (format::is_physical(group.kind) && !group.not_physical) now.push_back(group);
  }
  report->live_now = groups_of(std::move(now), dump, stacks, owners);
}

}  // namespace culprit::report
