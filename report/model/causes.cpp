// The names of causes and evidence in the JSON report. Scripts rely on them.
#include "report/model/causes.h"

namespace culprit::report {

const char* cause_name(Cause cause) {
  switch (cause) {
    case Cause::kCached:
      return "cached";
    case Cause::kFailedFree:
      return "failed-free";
    case Cause::kHeld:
      return "held";
    case Cause::kException:
      return "exception";
    case Cause::kErrorReturn:
      return "error-return";
    case Cause::kContextTeardown:
      return "context-teardown";
    case Cause::kNeverFreed:
      break;
  }
  return "never-freed";
}

const char* evidence_name(EvidenceType type) {
  switch (type) {
    case EvidenceType::kFailedFree:
      return "failed-free";
    case EvidenceType::kHeld:
      return "held";
    case EvidenceType::kException:
      return "exception";
    case EvidenceType::kErrorReturn:
      return "error-return";
    case EvidenceType::kContextTeardown:
      return "context-teardown";
    case EvidenceType::kThreadEnded:
      break;
  }
  return "thread-ended";
}

}  // namespace culprit::report
