#include "report/judge/judge.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "report/cuda/cuda_names.h"
#include "report/cuda/kinds.h"
#include "report/judge/evidence_builder.h"
#include "report/judge/fingerprint.h"
#include "report/judge/group_merge.h"
#include "report/judge/stack_owners.h"
#include "report/model/frame_text.h"
#include "report/model/marks.h"
#include "report/model/record_facts.h"
#include "report/model/stacks.h"
#include "report/model/sum_up.h"

namespace culprit::report {

using namespace format;

namespace {

// Makes the groups of one report.
class Judge {
 public:
  Judge(const Tables& tables, const Dump& dump, const StackResolver& stacks, const JudgeOptions& options,
        StackOwners* owners)
      : dump_(dump), stacks_(stacks), options_(options), owners_(*owners), evidence_(dump, stacks, tables) {}

  // Counts for every stack all its allocations and those that were not freed.
  void read_history(const Tables& tables) {
    // The counts are of the whole run, so they cannot be used for a part of it.
    if (!tables.range.is_whole()) return;
    auto history = [&](Ref stack) -> History& {
      const auto [at, added] = history_.emplace(stack, History());
      StackView view;
      if (added && dump_.stack(stack, &view)) {
        at->second.made = view.allocations;
        const auto more = tables.calls.by_stack.find(stack);
        if (more != tables.calls.by_stack.end()) at->second.made += more->second;
      }
      return at->second;
    };
    for (const AllocationGroup& group : tables.allocations) {
      const std::uint64_t kept = group.count - group.waiting;
      history(group.stack).kept += tables.only_lost ? 0 : kept;
    }
    // The groups of a scan have only what is lost.
    if (tables.only_lost) {
      dump_.for_each_allocation([&](const AllocationRecord& record, Ref) {
        const auto at = history_.find(record.stack);
        if (at != history_.end()) ++at->second.kept;
      });
    }
    for (const ReleaseRecord& release : tables.releases) history(release.stack).kept += release.count;
  }

  void add(const AllocationGroup& from) {
    Group group = make_group(from.stack, from.kind, from.api, from.device);
    group.bytes = from.bytes;
    group.count = from.count;
    group.first_ns = from.first_ns;
    group.last_ns = from.last_ns;
    group.handles = from.handles;
    group.each = from.each;
    group.ended_bytes = from.ended_bytes;
    group.mappings = from.mappings;
    group.handle_references = from.handle_references;
    for (std::uint32_t thread : from.threads) add_thread(thread, &group);
    group.marks = mark_shares(dump_, from.labels);
    group.region_bytes = from.region_bytes;
    group.names = name_shares(dump_, from.names);
    group.region_names = name_shares(dump_, from.region_names);
    group.heaps = heap_uses(dump_, from);
    if (from.outer.ref != 0) group.outside = outside_of(from.outer.record);
    group.evidence = evidence_.of(from);
    file(std::move(group), from.not_physical && from.kind != Kind::kRegion);
  }

  void add(const ReleaseRecord& from) {
    Group group = make_group(from.stack, from.kind, from.api, from.device);
    (from.kind == Kind::kRegion ? group.region_bytes : group.bytes) = from.bytes;
    group.count = from.count;
    group.first_ns = from.first_ns;
    group.last_ns = from.last_ns;
    add_thread(from.thread, &group);
    if (from.label != 0) group.marks = mark_shares(dump_, {{from.label, {from.count, group.bytes}}});
    if (from.name != 0) group.names = name_shares(dump_, {{from.name, from.count}});
    group.evidence = evidence_.of(from);
    file(std::move(group), false);
  }

  void add(const ErrorRecord& from) {
    ErrorGroup error;
    error.type = from.type;
    error.stack = &stacks_.stack(from.stack);
    error.allocation_stack = &stacks_.stack(from.allocation_stack);
    error.free_stack = &stacks_.stack(from.free_stack);
    error.driver_api = dump_.api_name(from.api);
    error.api = api_of(dump_, from.api, *error.stack);
    error.code = from.code;
    error.code_name = cuda_result_name(from.code);
    error.kind = from.kind;
    error.handle = from.handle;
    error.allocation_handle = from.allocation_handle;
    error.bytes = from.bytes;
    error.count = from.count;
    error.first_ns = from.first_ns;
    error.last_ns = from.last_ns;
    error.device = device_of(from.device);
    error.thread = thread_of(dump_, from.thread);
    if (from.free_stack != 0) error.free_thread = thread_of(dump_, from.free_thread);
    verdicts_.errors.push_back(std::move(error));
  }

  void add(const FailedCallRecord& from) {
    FailedAllocation failed;
    failed.stack = &stacks_.stack(from.stack);
    failed.driver_api = dump_.api_name(from.api);
    failed.api = api_of(dump_, from.api, *failed.stack);
    failed.code = from.code;
    failed.code_name = cuda_result_name(from.code);
    failed.injected = (from.flags & kFailedInjected) != 0;
    failed.count = from.count;
    failed.bytes = from.bytes;
    failed.first_ns = from.first_ns;
    failed.last_ns = from.last_ns;
    failed_allocations_.add(failed);
  }

  // A context whose creation was not recorded (another library made it earlier) is not the program's to destroy.
  void add(const ContextRecord& from) {
    if (from.state != ContextState::kAlive || from.thread == kNoIndex) return;
    Group group = make_group(from.stack, from.kind, from.api, from.device);
    group.count = 1;
    group.first_ns = from.created_ns;
    group.last_ns = from.created_ns;
    group.handles.push_back(from.handle);
    add_thread(from.thread, &group);
    file(std::move(group), false);
  }

  Verdicts finish() {
    for (std::vector<Group>* groups : {&verdicts_.leaks, &verdicts_.library, &verdicts_.resources}) {
      merge_same_place(groups);
      for (Group& group : *groups) {
        group.cause = group.pool != nullptr ? Cause::kCached : decide_cause(group.evidence);
        add_ended_threads(&group);
      }
      if (options_.ids) assign_ids(groups);
      sort_groups(groups);
    }
    std::stable_sort(verdicts_.errors.begin(), verdicts_.errors.end(),
                     [](const ErrorGroup& left, const ErrorGroup& right) { return left.first_ns < right.first_ns; });
    verdicts_.failed_allocations = failed_allocations_.take();
    return std::move(verdicts_);
  }

 private:
  Group make_group(Ref stack, Kind kind, std::uint16_t api, std::uint8_t device) {
    Group group;
    group.stack = &stacks_.stack(stack);
    group.stacks.push_back(stack);
    group.kind = kind;
    group.driver_api = dump_.api_name(api);
    group.api = api_of(dump_, api, *group.stack);
    group.device = device_of(device);
    const auto history = history_.find(stack);
    if (history != history_.end() && history->second.made > history->second.kept) {
      group.made = history->second.made;
      group.freed = history->second.made - history->second.kept;
    }
    if (options_.default_suppressions) group.library = owners_.library(*group.stack);
    if (group.library.empty() && kind_class(kind) != KindClass::kObject) group.pool = owners_.pool(*group.stack);
    return group;
  }

  Outside outside_of(const AllocationRecord& outer) const {
    const ResolvedStack& stack = stacks_.stack(outer.stack);
    return {api_of(dump_, outer.api, stack), outer.bytes, stack.caller == nullptr ? "" : frame_text(*stack.caller)};
  }

  static void add_ended_threads(Group* group) {
    for (const ThreadInfo& thread : group->threads) {
      if (!thread.ended) continue;
      Evidence evidence;
      evidence.type = EvidenceType::kThreadEnded;
      evidence.thread = thread;
      evidence.time_ns = thread.ended_ns;
      group->evidence.push_back(std::move(evidence));
    }
  }

  void add_thread(std::uint32_t index, Group* group) const {
    const std::optional<ThreadInfo> thread = thread_of(dump_, index);
    if (thread) group->threads.push_back(*thread);
  }

  // The CUDA runtime loads modules and libraries for itself and keeps them; those of the user come from
  // cudaLibraryLoad...
  static bool is_runtimes_own(const Group& group) {
    if (group.kind != Kind::kModule && group.kind != Kind::kLibrary) return false;
    return group.stack->through_runtime && group.api.rfind("cudaLibraryLoad", 0) != 0;
  }

  void file(Group group, bool not_physical) {
    const KindClass what = kind_class(group.kind);
    if (what == KindClass::kNeverCounted || is_runtimes_own(group)) return;
    if (what == KindClass::kObject || not_physical) {
      group.bytes = 0;
      verdicts_.resources.push_back(std::move(group));
    } else if (!group.library.empty() && !options_.strict) {
      verdicts_.library.push_back(std::move(group));
    } else {
      verdicts_.leaks.push_back(std::move(group));
    }
  }

  struct History {
    std::uint64_t made = 0;
    std::uint64_t kept = 0;
  };

  const Dump& dump_;
  const StackResolver& stacks_;
  const JudgeOptions& options_;
  StackOwners& owners_;
  const EvidenceBuilder evidence_;
  Verdicts verdicts_;
  FailedAllocations failed_allocations_;

  std::unordered_map<Ref, History> history_;
};

}  // namespace

Cause decide_cause(const std::vector<Evidence>& evidence) {
  Cause cause = Cause::kNeverFreed;
  for (const Evidence& one : evidence) {
    if (!one.yields) cause = std::min(cause, one.points_to);
  }
  if (cause <= Cause::kErrorReturn) return cause;
  for (const Evidence& one : evidence) cause = std::min(cause, one.points_to);
  return cause;
}

Verdicts judge(const Tables& tables, const Dump& dump, const StackResolver& stacks, const JudgeOptions& options,
               StackOwners* owners) {
  Judge work(tables, dump, stacks, options, owners);
  work.read_history(tables);
  for (const AllocationGroup& group : tables.allocations) work.add(group);
  for (const ReleaseRecord& release : tables.releases) work.add(release);
  for (const ErrorRecord& error : tables.errors) work.add(error);
  for (const FailedCallRecord& failed : tables.failed_allocations) work.add(failed);
  for (const ContextRecord& context : tables.contexts) work.add(context);
  return work.finish();
}

}  // namespace culprit::report
