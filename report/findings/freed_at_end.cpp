// GPU memory that was given back only while Python ended.
#include "report/base/words.h"
#include "report/findings/failure_words.h"
#include "report/findings/finding.h"
#include "report/findings/process_words.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostStacks = 3;

void collect_freed_at_end(const Report& report, std::vector<Finding>* list) {
  for (const Breakdown& breakdown : report.freed_at_end) {
    Finding& finding =
        add_finding(FindingKind::kFreedAtEnd,
                    whose_prefix(report, breakdown.process) + format_bytes(breakdown.live_bytes) + " in " +
                        plural(breakdown.live_count, "allocation", "allocations") + " on " + gpu_of(breakdown),
                    list);
    finding.bytes = breakdown.live_bytes;
    finding.count = breakdown.live_count;
    finding.device = breakdown.device;
    if (!report.job.empty()) finding.processes = {breakdown.process};
    for (const BreakdownEntry& entry : breakdown.entries) {
      if (finding.places.size() == kMostStacks) break;
      finding.add_place("allocated", entry.stack);
    }
  }
}

}  // namespace

const CollectFindings kFreedAtEndFinding = collect_freed_at_end;

}  // namespace culprit::report
