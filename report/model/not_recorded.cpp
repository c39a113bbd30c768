#include "report/model/not_recorded.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

// "12 allocations, 1 stack"
std::string dropped_counts(const Dropped& dropped) {
  std::string counts;
  auto add = [&](std::uint64_t count, const char* one, const char* many) {
    if (count != 0) counts += (counts.empty() ? "" : ", ") + plural(count, one, many);
  };
#define COUNTER_DROPPED(name, field, one, many) add(dropped.field, one, many);
#include "interpose/format/counters.def"
  return counts;
}

std::string dropped_text(const Report& report) {
  const Dropped& dropped = report.dropped;
  if (!report.hook_called) {
    if (report.process.pid == 0 && !dropped.reason.empty()) return printable(dropped.reason);  // of several processes
    if (dropped.reason_tells_deed) return "the process " + printable(dropped.reason);
    return dropped.reason.empty() ? "a CUDA library was loaded, but none of its calls was seen"
                                  : "the process recorded nothing: " + printable(dropped.reason);
  }
  const std::string counts = dropped_counts(dropped);
  if (dropped.reason.empty()) {
    if (counts.empty()) return {};
    const bool no_room = dropped.allocations + dropped.stacks + dropped.others != 0;
    return counts + " not recorded" + (no_room ? ": a table of fixed size was full" : "");
  }
  const std::string since = dropped.stop_time_ns != 0 ? " from " + format_time(dropped.stop_time_ns) + " on" : "";
  return (counts.empty() ? "recording stopped" : counts + " not recorded,") + since + ": " + printable(dropped.reason);
}

}  // namespace

std::string unseen_text(const UnseenUser& user) {
  const std::string name = printable(base_name(user.path));
  if (user.surplus_driver)
    return name + " is one driver too many (the process had several loaded): its allocations are not in this report";
  return user.own_driver
             ? name +
                   " has a CUDA driver of its own (it was loaded with dlmopen): its allocations are not in this report"
             : name +
                   " calls the driver directly (it was loaded with RTLD_DEEPBIND, or finds functions without dlsym): "
                   "its allocations are not in this report";
}

Verdict verdict_of(const Report& report) {
  if (report.summary.groups != 0) return Verdict::kLeaks;
  return is_complete(report) ? Verdict::kClean : Verdict::kNotKnown;
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kClean:
      return "clean";
    case Verdict::kLeaks:
      return "leaks";
    case Verdict::kNotKnown:
      break;
  }
  return "not-known";
}

std::vector<std::string> recording_gaps(const Report& report) {
  std::vector<std::string> reasons;
  const std::string dropped = dropped_text(report);
  if (!dropped.empty()) reasons.push_back(dropped);
  if (report.process.attach_unsearched_bytes != 0)
    reasons.push_back("calls through pointers in " + format_bytes(report.process.attach_unsearched_bytes) +
                      " of memory are not recorded: the attach had no time to search it (again)");
  return reasons;
}

std::string audit_gap(const Report& report) {
  const std::uint64_t missing = calls_not_recorded(report.audit);
  if (missing == 0) return {};
  return "the audit saw " + plural(missing, "call", "calls") + " of the driver that " +
         (missing == 1 ? "was" : "were") + " not recorded: " + not_recorded_text(report.audit.not_recorded.front()) +
         (report.audit.not_recorded.size() > 1 ? ", ..." : "");
}

std::vector<std::string> missing_processes(const Report& report) {
  std::vector<std::string> reasons;
  if (!report.missing_ranks.empty()) reasons.push_back(report.missing_ranks);
  for (const std::string& reason : report.not_joined) reasons.push_back(printable(reason));
  return reasons;
}

std::vector<std::string> reasons_not_known(const Report& report) {
  std::vector<std::string> reasons;
  for (const UnseenUser& user : report.unseen) reasons.push_back(unseen_text(user));
  for (std::string& gap : recording_gaps(report)) reasons.push_back(std::move(gap));
  if (std::string gap = audit_gap(report); !gap.empty()) reasons.push_back(std::move(gap));
  for (std::string& reason : missing_processes(report)) reasons.push_back(std::move(reason));
  return reasons;
}

std::string recorded_share_text(const Report& report) {
  if (report.partly_recorded == 0) return {};
  if (!report.job.empty())
    return "recording was off for a part of the run in " + plural(report.partly_recorded, "process", "processes") +
           ": the verdict is of the rest";
  const RecordingInfo& recording = report.recording;
  const std::size_t count = recording.spans.size();
  const std::string spans = plural(count, "span", "spans") + " that the program or a signal chose";
  const std::uint64_t end = report.process.end_time_ns;
  if (count != 0 && end == 0) return "only " + spans + " of the run were recorded: the verdict is of them";
  std::uint64_t sum = 0;
  for (const RecordedSpan& span : recording.spans) {
    const std::uint64_t span_end = span.end_ns != 0 ? span.end_ns : end;
    sum += span_end > span.begin_ns ? span_end - span.begin_ns : 0;
  }
  const std::uint64_t whole = std::max(end + recording.process_age_ns, std::max<std::uint64_t>(sum, 1));
  const auto percent = static_cast<unsigned>(static_cast<double>(sum) * 100 / static_cast<double>(whole));
  return std::to_string(percent) + "% of the run was recorded (" + format_time(sum) + " of " + format_time(whole) +
         "), in " + spans + ": the verdict is of " + (count == 1 ? "it" : "them");
}

std::string not_searched_text(const Report& report, const Group& group) {
  using format::HolderSearch;
  const bool may_be_held =
      group.cause == Cause::kNeverFreed || group.cause == Cause::kException || group.cause == Cause::kErrorReturn;
  if (!may_be_held) return {};
  const bool job = !report.job.empty();
  switch (report.holder_search.state) {
    case HolderSearch::kDone:
      if (report.holder_search.heap == format::HeapSearch::kStopped) {
        return "the search through the heap was given up (CULPRIT_SCAN_SECONDS and CULPRIT_SCAN_BYTES allow more than "
               "2 s and 4 GiB): a global may lead to this memory";
      }
      if (report.python_unseen.empty()) return {};
      return "variables of Python were not searched (" + printable(report.python_unseen) +
             "): one may hold this memory";
    case HolderSearch::kOff:
      return "globals were not searched (CULPRIT_SCAN=off): one may hold this memory";
    case HolderSearch::kStopped:
      return "the search for globals that hold memory was given up: one may hold this memory";
    case HolderSearch::kNotRun:
      break;
  }
  const auto is_over = [](const JobProcess& process) {
    return process.ended == Ended::kExit || process.ended == Ended::kKilled || process.gone;
  };
  const bool over = job ? std::any_of(report.job.begin(), report.job.end(), is_over) : report.process.status.is_over();
  if (!over) return {};
  return std::string(job ? "a process of the job" : "the process") +
         " ended without its exit handlers, so its globals were not searched: one may hold this memory";
}

std::string not_searched_text(const Report& report) {
  for (const Group& group : report.leaks) {
    const std::string text = not_searched_text(report, group);
    if (!text.empty()) return text;
  }
  return {};
}

std::string why_lost_is_not_known(format::LostSearch end, SearchOf of) {
  using format::LostSearch;
  switch (end) {
    case LostSearch::kGivenUp:
      return "the search was given up (CULPRIT_SCAN_SECONDS and CULPRIT_SCAN_BYTES allow more than 2 s and 4 GiB)";
    case LostSearch::kThreads:
      return "other threads of the program were still running at exit (culprit run --scan lost stops them meanwhile)";
    case LostSearch::kAllocator:
      return "the heap is not glibc's, or its chunks could not be followed";
    case LostSearch::kNotAllRecorded:
      return "not all calls of CUDA were recorded";
    case LostSearch::kDeviceCode:
      return "kernels ran, and what they keep on the device is not all known";
    case LostSearch::kDriverObjects:
      return "graphs, textures, arrays, VMM memory or other objects of the driver may have pointers";
    case LostSearch::kShared:
      return "memory is shared with other processes";
    case LostSearch::kDeviceNotRead:
      return of == SearchOf::kRunning
                 ? "memory of a device could not be read: streams had work, a call had failed, or "
                   "it takes longer than --longest-stop allows"
                 : "memory of a device could not be read: work went on at exit, a call had failed, "
                   "or it is more than half of CULPRIT_SCAN_BYTES";
    case LostSearch::kUnreadable:
      return "not all memory, threads or descriptors of the process could be read";
    case LostSearch::kKernelHolds:
      return "the kernel may have pointers, for epoll, io_uring, timers, signals or message queues, or in a pipe";
    case LostSearch::kDestructors:
      return "thread-local objects were destroyed before the search";
    case LostSearch::kThreadsNotStopped:
      return "other threads of the program were still running at exit, and could not be stopped (--log info says why)";
    case LostSearch::kDone:
    case LostSearch::kNotRun:
    case LostSearch::kPython:  // views of Python objects name the holders there
      break;
  }
  return {};
}

std::string lost_not_known_text(const Report& report) {
  const auto may_be_lost = [](const Group& group) { return group.cause == Cause::kNeverFreed; };
  if (std::none_of(report.leaks.begin(), report.leaks.end(), may_be_lost)) return {};
  return why_lost_is_not_known(report.holder_search.lost, SearchOf::kEnded);
}

std::string reasons_text(const Report& report) {
  std::string text;
  for (const std::string& reason : reasons_not_known(report)) text += (text.empty() ? "" : "; ") + reason;
  return text;
}

bool is_complete(const Report& report) { return reasons_not_known(report).empty(); }

}  // namespace culprit::report
