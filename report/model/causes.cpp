// The names of causes, evidence and errors in the JSON report. Scripts rely on them.
#include "report/model/report_model.h"

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

const char* holder_search_name(format::HolderSearch state) {
  using format::HolderSearch;
  switch (state) {
    case HolderSearch::kDone:
      return "done";
    case HolderSearch::kOff:
      return "off";
    case HolderSearch::kStopped:
      return "stopped";
    case HolderSearch::kNotRun:
      break;
  }
  return "not-run";
}

const char* error_type_name(format::ErrorType type) {
  using format::ErrorType;
  switch (type) {
    case ErrorType::kDoubleFree:
      return "double-free";
    case ErrorType::kInvalidFree:
      return "invalid-free";
    case ErrorType::kMismatchedFree:
      return "mismatched-free";
    case ErrorType::kFailedFree:
      return "failed-free";
    case ErrorType::kNone:
      break;
  }
  return "unknown";
}

}  // namespace culprit::report
