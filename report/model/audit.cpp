#include "report/model/audit.h"

#include <algorithm>
#include <map>
#include <utility>

#include "report/base/words.h"
#include "report/model/frame_order.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/model/program_frames.h"

namespace culprit::report {

using format::AuditState;

std::uint64_t audited_calls(const Audit& audit) {
  std::uint64_t sum = 0;
  for (const AuditedFunction& function : audit.functions) sum += function.calls;
  return sum;
}

std::uint64_t calls_not_recorded(const Audit& audit) {
  std::uint64_t sum = 0;
  for (const NotRecordedCalls& calls : audit.not_recorded) sum += calls.count;
  return sum;
}

void put_in_order(Audit* audit) {
  std::map<std::string, std::uint64_t> functions;
  for (const AuditedFunction& function : audit->functions) functions[function.api] += function.calls;
  audit->functions.clear();
  for (const auto& [api, calls] : functions) audit->functions.push_back({api, calls});
  std::vector<NotRecordedCalls> sums;
  std::map<std::pair<std::string, const ResolvedStack*>, std::size_t> places;
  for (const NotRecordedCalls& calls : audit->not_recorded) {
    const auto [at, added] = places.try_emplace({calls.api, calls.stack}, sums.size());
    if (added) {
      sums.push_back(calls);
    } else {
      sums[at->second].count += calls.count;
      sums[at->second].bytes += calls.bytes;
    }
  }
  std::stable_sort(sums.begin(), sums.end(), [](const NotRecordedCalls& left, const NotRecordedCalls& right) {
    if (left.count != right.count) return left.count > right.count;
    return left.api != right.api ? left.api < right.api : precedes(left.stack, right.stack);
  });
  audit->not_recorded = std::move(sums);
}

std::string why_no_audit(const Audit& audit) {
  switch (audit.state) {
    case AuditState::kNotAsked:
    case AuditState::kOn:
      return {};
    case AuditState::kNotBegun:
      return "no call of cuInit was seen";
    case AuditState::kEnded:
      return "it ended at " + format_time(audit.end_ns) + ", when the program's own profiler took CUPTI";
    case AuditState::kNoCupti:
      return "no libcupti was found: set CULPRIT_CUPTI to the toolkit's libcupti.so";
    case AuditState::kTaken:
      return "another tool, such as a profiler, holds CUPTI, which only one can use";
    case AuditState::kFailed:
      return "CUPTI refused with error " + std::to_string(audit.error);
    case AuditState::kForkParent:
      return "the process was forked from one that had called cuInit";
  }
  return "for a reason that only a newer culprit knows";
}

std::string not_recorded_text(const NotRecordedCalls& calls) {
  std::string text = printable(calls.api) + " " + std::to_string(calls.count) + "x";
  if (calls.bytes != 0) text += ", " + format_bytes(calls.bytes);
  const Frame* frame = calls.stack == nullptr ? nullptr : naming_frame(*calls.stack);
  return frame == nullptr ? text : text + ", at " + frame_text(*frame);
}

std::string audit_headline(const Audit& audit) {
  if (audit.state == AuditState::kNotAsked) return {};
  const std::string why = why_no_audit(audit);
  if (audit.functions.empty() && !why.empty()) return "no audit took place: " + why;
  const std::uint64_t missing = calls_not_recorded(audit);
  std::string text;
  if (missing == 0) {
    text = plural(audited_calls(audit), "call", "calls") + " of " +
           plural(audit.functions.size(), "function", "functions") + ": all recorded";
  } else {
    text =
        plural(missing, "call was", "calls were") + " not recorded: " + not_recorded_text(audit.not_recorded.front());
  }
  if (audit.not_audited != 0) text += "; none in " + plural(audit.not_audited, "process", "processes");
  return why.empty() ? text : text + "; " + why;
}

}  // namespace culprit::report
