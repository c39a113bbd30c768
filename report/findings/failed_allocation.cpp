// Allocations that the driver refused.
#include "report/findings/failure_words.h"

namespace culprit::report {
namespace {

void collect(const Report& report, std::vector<Finding>* list) {
  collect_failed(report, true, FindingKind::kFailedAllocation, list);
}

}  // namespace

const CollectFindings kFailedAllocationFinding = collect;

}  // namespace culprit::report
