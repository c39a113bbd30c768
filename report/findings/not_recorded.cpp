// Events of the process, or all of it, that were not recorded.
#include "report/model/not_recorded.h"
#include "report/findings/finding.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

void collect_not_recorded(const Report& report, std::vector<Finding>* list) {
  for (std::string& reason : recording_gaps(report))
    add_finding(FindingKind::kNotRecorded, std::move(reason), list).count = report.dropped.total();
}

}  // namespace

const CollectFindings kNotRecordedFinding = collect_not_recorded;

}  // namespace culprit::report
