// Processes of the job or of the run without a dump in the report.
#include "report/findings/finding.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

void collect_missing_processes(const Report& report, std::vector<Finding>* list) {
  for (std::string& reason : missing_processes(report))
    add_finding(FindingKind::kMissingProcesses, std::move(reason), list);
}

}  // namespace

const CollectFindings kMissingProcessesFinding = collect_missing_processes;

}  // namespace culprit::report
