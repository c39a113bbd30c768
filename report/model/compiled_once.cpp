#include "report/base/compiled_once.h"

#include "report/model/report.h"

namespace culprit::report {

CULPRIT_COMPILED_HERE(Balance);
CULPRIT_COMPILED_HERE(CallCharge);
CULPRIT_COMPILED_HERE(CacheInside);
CULPRIT_COMPILED_HERE(ContextInfo);
CULPRIT_COMPILED_HERE(DeviceInfo);
CULPRIT_COMPILED_HERE(ErrorGroup);
CULPRIT_COMPILED_HERE(FailedAllocation);
CULPRIT_COMPILED_HERE(Group);
CULPRIT_COMPILED_HERE(JobProcess);
CULPRIT_COMPILED_HERE(Breakdown);
CULPRIT_COMPILED_HERE(ProcessInfo);
CULPRIT_COMPILED_HERE(Report);

}  // namespace culprit::report
