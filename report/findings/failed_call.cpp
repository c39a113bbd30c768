// Calls that allocate nothing for the program and failed for want of memory: launches, instantiations, new code.
#include "report/findings/failure_words.h"

namespace culprit::report {
namespace {

void collect_failed_call(const Report& report, std::vector<Finding>* list) {
  collect_failed(report, false, FindingKind::kFailedCall, list);
}

}  // namespace

const CollectFindings kFailedCallFinding = collect_failed_call;

}  // namespace culprit::report
