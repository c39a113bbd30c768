// Allocations that the driver refused.
#include "report/findings/failure_words.h"

namespace culprit::report {
namespace {

void collect_failed_allocation(const Report& report, std::vector<Finding>* list) {
  collect_failed(report, true, FindingKind::kFailedAllocation, list);
}

}  // namespace

const CollectFindings kFailedAllocationFinding = collect_failed_allocation;

}  // namespace culprit::report
