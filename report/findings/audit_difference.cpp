// Calls that CUPTI saw and that were not recorded (`culprit run --audit`). That there was no audit is no finding.
#include "report/findings/finding.h"
#include "report/model/audit.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostCalls = 8;

void collect_audit_difference(const Report& report, std::vector<Finding>* list) {
  const std::string text = audit_gap(report);
  if (text.empty()) return;
  Finding& finding = add_finding(FindingKind::kAuditDifference, text, list);
  finding.count = calls_not_recorded(report.audit);
  std::size_t shown = 0;
  for (const NotRecordedCalls& calls : report.audit.not_recorded) {
    finding.bytes += calls.bytes;
    if (shown == kMostCalls) continue;
    if (shown++ != 0) finding.facts.push_back(not_recorded_text(calls));
    finding.add_place("called", calls.stack);
  }
}

}  // namespace

const CollectFindings kAuditDifferenceFinding = collect_audit_difference;

}  // namespace culprit::report
