#include "report/merge/report_merger.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "report/judge/fingerprint.h"
#include "report/judge/group_merge.h"
#include "report/merge/merge_caches.h"
#include "report/merge/merge_facts.h"
#include "report/merge/spread.h"
#include "report/model/marks.h"
#include "report/model/peak_use.h"
#include "report/model/sum_up.h"

namespace culprit::report {
namespace {

JobProcess job_process(const Report& report) {
  JobProcess process;
  process.dump_path = report.dump_path;
  process.pid = report.process.pid;
  process.host = report.process.host;
  process.of_this_machine = report.process.of_this_machine;
  process.rank = report.process.rank;
  process.job_size = report.process.job_size;
  process.start_realtime_ns = report.process.start_realtime_ns;
  process.ended = report.process.status.ended;
  process.exit_status = report.process.status.exit_status;
  process.signal = report.process.status.signal;
  process.gone = report.process.status.gone;
  process.peak_live_bytes = most_recorded_use(report.devices);
  return process;
}

}  // namespace

bool comes_before(const JobProcess& left, const JobProcess& right) {
  auto order = [](const JobProcess& process) {
    return std::make_tuple(!process.rank.has_value(), process.rank.value_or(0), process.host, process.start_realtime_ns,
                           process.pid, process.dump_path);
  };
  return order(left) < order(right);
}

ReportMerger::ReportMerger() : store_(std::make_shared<FrameStore>()) {}

void ReportMerger::add_head(const Report& report) {
  const bool first = report_.job.empty();
  const std::vector<JobProcess> added = report.job.empty() ? std::vector<JobProcess>{job_process(report)} : report.job;
  const JobProcess& front = *std::min_element(added.begin(), added.end(), comes_before);
  const Ended ended =
      first ? report.process.status.ended : worse(report_.process.status.ended, report.process.status.ended);
  const int status = std::max(report_.process.status.exit_status, report.process.status.exit_status);
  if (first || comes_before(front, *std::min_element(report_.job.begin(), report_.job.end(), comes_before)))
    report_.process = report.process;
  report_.process.status.ended = ended;
  report_.process.status.exit_status = status;
  report_.process.status.note.clear();
  report_.process.status.signal = 0;  // each of the processes has its own
  report_.job.insert(report_.job.end(), added.begin(), added.end());

  report_.hook_called = report_.hook_called || report.hook_called;
  for (const UnseenUser& user : report.unseen) {
    const auto same = [&](const UnseenUser& one) {
      return one.path == user.path && one.own_driver == user.own_driver && one.surplus_driver == user.surplus_driver;
    };
    if (std::none_of(report_.unseen.begin(), report_.unseen.end(), same)) report_.unseen.push_back(user);
  }
  for (const RunRecord& run : report.runs) {
    const auto same =
        std::find_if(report_.runs.begin(), report_.runs.end(), [&](const RunRecord& one) { return one.id == run.id; });
    if (same == report_.runs.end()) {
      report_.runs.push_back(run);
    } else if (says_more(run, *same)) {
      *same = run;
    }
  }
  report_.not_joined.insert(report_.not_joined.end(), report.not_joined.begin(), report.not_joined.end());
  for (DeviceInfo device : report.devices) {
    // Time lines are not merged, so the peak is taken from the time line, which is more exact than the readings.
    device.peak_live_bytes = std::max(device.peak_live_bytes, device.time_line.peak_bytes);
    device.time_line = {};
    const auto [at, is_new] = devices_.try_emplace(device.uuid, device);
    if (!is_new) merge(device, &at->second);
  }
  for (const MarkInfo& mark : report.marks) {
    const auto [at, is_new] = marks_.try_emplace({mark.name, mark.kind}, mark);
    at->second.times.clear();
    if (is_new) continue;
    at->second.first_ns = std::min(at->second.first_ns, mark.first_ns);
    at->second.last_ns = std::max(at->second.last_ns, mark.last_ns);
    at->second.count += mark.count;
  }
#define COUNTER_SUMMARY(name) report_.summary.name += report.summary.name;
#define COUNTER_CALLS(name) report_.summary.name += report.summary.name;
#define COUNTER_DROPPED(name, field, ...) report_.dropped.field += report.dropped.field;
#define COUNTER_DETAIL(name) report_.dropped.name += report.dropped.name;
#define COUNTER_REPORT(name) report_.name += report.name;
#include "interpose/format/counters.def"
  report_.live_cached_bytes += report.live_cached_bytes;
  report_.caches_unseen += report.caches_unseen;
  report_.python_ends_unseen += report.python_ends_unseen;
  // One of the reasons, the same one in any order of merging.
  if (!report.python_unseen.empty()) {
    report_.python_unseen =
        report_.python_unseen.empty() ? report.python_unseen : std::min(report_.python_unseen, report.python_unseen);
  }
  merge_caches(report.caches_inside, &report_.caches_inside);
  merge_caches(report.ran_out, &report_.ran_out);
  Dropped& dropped = report_.dropped;
  if (!report.dropped.reason.empty()) {
    const bool none = dropped.reason.empty();
    dropped.reason = none ? report.dropped.reason : std::min(dropped.reason, report.dropped.reason);
    dropped.stop_time_ns =
        none ? report.dropped.stop_time_ns : std::min(dropped.stop_time_ns, report.dropped.stop_time_ns);
  }
  HolderSearchInfo& search = report_.holder_search;
  search.state = first ? report.holder_search.state : worse(search.state, report.holder_search.state);
  search.heap = first ? report.holder_search.heap : worse(search.heap, report.holder_search.heap);
  search.lost = first ? report.holder_search.lost : worse(search.lost, report.holder_search.lost);
  search.ns += report.holder_search.ns;
  search.bytes += report.holder_search.bytes;
  merge_bound(report.since_mark, &report_.since_mark);
  merge_bound(report.before_mark, &report_.before_mark);
  notes_.insert(report.notes.begin(), report.notes.end());
  report_.partly_recorded += report.partly_recorded;
  if (report.recording.off || !report.recording.spans.empty()) {
    notes_.insert("recording was off for a time in some of the processes: their allocations of that time are missing");
  }
}

void ReportMerger::add_groups(std::vector<Group> from, std::uint32_t first_process, StoreImport* import, List* into) {
  for (Group& group : from) {
    group.stack = import->import(group.stack);
    if (group.shares.empty()) group.shares.push_back({0, group.bytes, group.count});
    for (Share& share : group.shares) share.process += first_process;
    if (group.device) group.devices.push_back(*group.device);
    group.device.reset();
    if (group.thread_sums.empty()) group.thread_sums = sums_of(group.threads);
    group.threads.clear();
    group.handles.clear();
    group.each.clear();
    group.stacks.clear();
    if (group.made == 0) group.made = group.count;
    auto of_thread = [](const Evidence& evidence) { return evidence.type == EvidenceType::kThreadEnded; };
    group.evidence.erase(std::remove_if(group.evidence.begin(), group.evidence.end(), of_thread), group.evidence.end());
    for (Evidence& evidence : group.evidence) {
      evidence.stack = import->import(evidence.stack);
      evidence.caught = import->import(evidence.caught);
      evidence.owner = import->import(evidence.owner);
      evidence.variable = import->import(evidence.variable);
      evidence.thread.reset();
      evidence.records.clear();
    }
    const auto [at, added] = into->index.try_emplace(merge_key(group), into->groups.size());
    if (added) {
      into->groups.push_back(std::move(group));
    } else {
      merge(std::move(group), &into->groups[at->second]);
    }
  }
}

void ReportMerger::add_error(ErrorGroup error, StoreImport* import) {
  error.stack = import->import(error.stack);
  error.allocation_stack = import->import(error.allocation_stack);
  error.free_stack = import->import(error.free_stack);
  error.thread.reset();
  error.free_thread.reset();
  const auto [at, added] = errors_.try_emplace(error_key(error), error);
  if (!added) merge(error, &at->second);
}

void ReportMerger::add_breakdowns(std::vector<Breakdown> from, std::uint32_t first_process, StoreImport* import,
                                  std::vector<Breakdown>* to) {
  for (Breakdown& breakdown : from) {
    breakdown.process += first_process;
    breakdown.stack = import->import(breakdown.stack);
    for (BreakdownEntry& entry : breakdown.entries) entry.stack = import->import(entry.stack);
    to->push_back(std::move(breakdown));
  }
}

// A part of the processes may have had no audit: the reason is that of the first of them, by number.
void ReportMerger::add_audit(const Audit& from, bool first, StoreImport* import) {
  Audit& audit = report_.audit;
  audit.not_audited += from.not_audited;
  if (from.state != format::AuditState::kOn && from.state != format::AuditState::kEnded && from.functions.empty() &&
      from.state != format::AuditState::kNotAsked && from.not_audited == 0)
    ++audit.not_audited;
  const auto order = [](const Audit& one) {
    return std::make_tuple(~static_cast<std::uint64_t>(one.state), one.error, one.end_ns);
  };
  if (first || order(from) < order(audit)) {
    audit.state = from.state;
    audit.error = from.error;
    audit.end_ns = from.end_ns;
  }
  audit.functions.insert(audit.functions.end(), from.functions.begin(), from.functions.end());
  for (NotRecordedCalls calls : from.not_recorded) {
    calls.stack = calls.stack == nullptr ? nullptr : import->import(calls.stack);
    audit.not_recorded.push_back(std::move(calls));
  }
  put_in_order(&audit);
}

void ReportMerger::add_balances(Report report, std::uint32_t first_process, StoreImport* import) {
  for (Balance& balance : report.balances) {
    balance.process += first_process;
    report_.balances.push_back(std::move(balance));
  }
  for (CallCharge& charge : report.call_charges) {
    charge.process += first_process;
    charge.stack = import->import(charge.stack);
    report_.call_charges.push_back(std::move(charge));
  }
  for (ContextInfo& context : report.contexts) {
    context.process += first_process;
    context.stack = import->import(context.stack);
    context.thread.reset();
    report_.contexts.push_back(std::move(context));
  }
  for (Overwritten& one : report.overwritten) {
    one.process += first_process;
    one.stack = import->import(one.stack);
    report_.overwritten.push_back(std::move(one));
  }
  for (Sharing& sharing : report.sharings) {
    sharing.process += first_process;
    sharing.stack = import->import(sharing.stack);
    sharing.export_stack = import->import(sharing.export_stack);
    sharing.end_stack = import->import(sharing.end_stack);
    report_.sharings.push_back(std::move(sharing));
  }
}

void ReportMerger::add(Report report, StackCache* cache) {
  const auto first_process = static_cast<std::uint32_t>(report_.job.size());
  add_head(report);
  StoreImport import(store_.get(), cache);
  add_audit(report.audit, first_process == 0, &import);
  add_groups(std::move(report.leaks), first_process, &import, &leaks_);
  add_groups(std::move(report.library), first_process, &import, &library_);
  add_groups(std::move(report.resources), first_process, &import, &resources_);
  add_breakdowns(std::move(report.breakdowns), first_process, &import, &report_.breakdowns);
  add_breakdowns(std::move(report.freed_at_end), first_process, &import, &report_.freed_at_end);
  for (ErrorGroup& error : report.errors) add_error(std::move(error), &import);
  for (FailedAllocation& failed : report.failed_allocations) {
    failed.stack = import.import(failed.stack);
    failed_allocations_.add(failed);
  }
  add_balances(std::move(report), first_process, &import);
}

// `place`: the index of each process in the final order.
std::vector<Group> ReportMerger::finish_groups(const std::vector<std::uint32_t>& place, List* list) {
  for (Group& group : list->groups) {
    for (Share& share : group.shares) share.process = place[share.process];
    std::sort(group.shares.begin(), group.shares.end(),
              [](const Share& left, const Share& right) { return left.process < right.process; });
    // A process may have several shares, because it has one group for each device.
    std::vector<Share> sums;
    for (const Share& share : group.shares) {
      if (sums.empty() || sums.back().process != share.process) sums.push_back({share.process, 0, 0});
      sums.back().bytes += share.bytes;
      sums.back().count += share.count;
    }
    group.shares = std::move(sums);
    std::sort(group.devices.begin(), group.devices.end());
    group.devices.erase(std::unique(group.devices.begin(), group.devices.end()), group.devices.end());
    std::sort(group.marks.begin(), group.marks.end(), [](const MarkShare& left, const MarkShare& right) {
      auto order = [](const MarkShare& share) { return std::tie(share.mark, share.range); };
      return left.bytes != right.bytes ? left.bytes > right.bytes : order(left) < order(right);
    });
    std::sort(group.thread_sums.begin(), group.thread_sums.end(), [](const ThreadSum& left, const ThreadSum& right) {
      auto order = [](const ThreadSum& sum) {
        return std::make_tuple(~sum.processes, ~sum.threads, std::cref(sum.name));
      };
      return order(left) < order(right);
    });
    if (group.devices.size() == 1) group.device = group.devices.front();
    if (group.freed == 0) group.made = 0;
  }
  // Groups that are equal for sort_groups() keep this order, which must not depend on the order of merging.
  std::sort(list->groups.begin(), list->groups.end(), [](const Group& left, const Group& right) {
    auto order = [](const Group& group) {
      return std::make_tuple(group.shares.front().process, ~group.bytes, ~group.count, group.first_ns, group.last_ns);
    };
    if (order(left) != order(right)) return order(left) < order(right);
    return &left != &right && content_of(left) < content_of(right);
  });
  std::vector<Group> groups = std::move(list->groups);
  *list = List();
  return groups;
}

Report ReportMerger::finish(bool strict) {
  Report report = finish_part();
  for (std::vector<Group>* groups : {&report.leaks, &report.library, &report.resources}) {
    assign_ids(groups);
    sort_groups(groups);
  }
  limit_caches(&report.caches_inside);
  limit_caches(&report.ran_out);
  sum_up(strict, &report);
  return report;
}

Report ReportMerger::finish_part() {
  Report report = std::move(report_);
  std::vector<std::uint32_t> order(report.job.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t left, std::uint32_t right) { return comes_before(report.job[left], report.job[right]); });
  std::vector<std::uint32_t> place(order.size());
  std::vector<JobProcess> job;
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    job.push_back(std::move(report.job[order[i]]));
  }
  report.job = std::move(job);
  report.leaks = finish_groups(place, &leaks_);
  report.library = finish_groups(place, &library_);
  report.resources = finish_groups(place, &resources_);
  for (Breakdown& breakdown : report.breakdowns) breakdown.process = place[breakdown.process];
  std::stable_sort(report.breakdowns.begin(), report.breakdowns.end(),
                   [](const Breakdown& left, const Breakdown& right) {
                     auto turn = [](const Breakdown& one) { return std::make_tuple(!one.out_of_memory, one.process); };
                     return turn(left) < turn(right);
                   });
  for (Breakdown& breakdown : report.freed_at_end) breakdown.process = place[breakdown.process];
  std::stable_sort(report.freed_at_end.begin(), report.freed_at_end.end(),
                   [](const Breakdown& left, const Breakdown& right) { return left.process < right.process; });
  for (Balance& balance : report.balances) balance.process = place[balance.process];
  for (CallCharge& charge : report.call_charges) charge.process = place[charge.process];
  for (ContextInfo& context : report.contexts) context.process = place[context.process];
  for (Overwritten& one : report.overwritten) one.process = place[one.process];
  std::stable_sort(report.overwritten.begin(), report.overwritten.end(),
                   [](const Overwritten& left, const Overwritten& right) {
                     return left.bytes != right.bytes ? left.bytes > right.bytes : left.process < right.process;
                   });
  for (Sharing& sharing : report.sharings) sharing.process = place[sharing.process];
  std::stable_sort(report.sharings.begin(), report.sharings.end(),
                   [](const Sharing& left, const Sharing& right) { return left.process < right.process; });
  std::stable_sort(report.balances.begin(), report.balances.end(),
                   [](const Balance& left, const Balance& right) { return left.process < right.process; });
  std::stable_sort(report.call_charges.begin(), report.call_charges.end(),
                   [](const CallCharge& left, const CallCharge& right) {
                     return left.bytes != right.bytes ? left.bytes > right.bytes : left.process < right.process;
                   });
  std::stable_sort(report.contexts.begin(), report.contexts.end(),
                   [](const ContextInfo& left, const ContextInfo& right) { return left.process < right.process; });
  for (auto& [key, mark] : marks_) report.marks.push_back(std::move(mark));
  std::stable_sort(report.marks.begin(), report.marks.end(),
                   [](const MarkInfo& left, const MarkInfo& right) { return left.first_ns < right.first_ns; });
  for (auto& [key, error] : errors_) report.errors.push_back(std::move(error));
  std::stable_sort(report.errors.begin(), report.errors.end(),
                   [](const ErrorGroup& left, const ErrorGroup& right) { return left.first_ns < right.first_ns; });
  report.failed_allocations = failed_allocations_.take();
  for (auto& [uuid, device] : devices_) report.devices.push_back(std::move(device));
  std::stable_sort(report.devices.begin(), report.devices.end(),
                   [](const DeviceInfo& left, const DeviceInfo& right) { return left.ordinal < right.ordinal; });
  report.notes.assign(notes_.begin(), notes_.end());
  std::sort(report.runs.begin(), report.runs.end(),
            [](const RunRecord& left, const RunRecord& right) { return left.id < right.id; });
  std::sort(report.not_joined.begin(), report.not_joined.end());
  std::sort(report.unseen.begin(), report.unseen.end(), [](const UnseenUser& left, const UnseenUser& right) {
    auto facts = [](const UnseenUser& user) { return std::tie(user.path, user.own_driver, user.surplus_driver); };
    return facts(left) < facts(right);
  });
  report.stacks = store_;
  *this = ReportMerger();
  return report;
}

std::string missing_ranks_of(const std::vector<const Report*>& reports, const std::string& reason) {
  unsigned size = 0;
  std::set<unsigned> present;
  bool same_job = true;
  const auto add = [&](const std::optional<unsigned>& rank, unsigned job_size) {
    if (!rank) return;  // the job's launcher
    if (size == 0) size = job_size;
    same_job = same_job && job_size == size;
    present.insert(*rank);
  };
  for (const Report* report : reports) {
    if (report->job.empty()) add(report->process.rank, report->process.job_size);
    for (const JobProcess& process : report->job) add(process.rank, process.job_size);
  }
  constexpr unsigned kLargestJob = 1U << 24;  // limits a damaged file's number
  if (!same_job || size == 0 || size > kLargestJob) return {};
  std::vector<unsigned> missing;
  for (unsigned rank = 0; rank < size; ++rank) {
    if (present.count(rank) == 0) missing.push_back(rank);
  }
  if (missing.empty()) return {};
  return "no dump of " + ranks_text(missing) + " of " + std::to_string(size) + ": " + reason +
         ", or the process made no CUDA call";
}

}  // namespace culprit::report
