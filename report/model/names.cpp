// Scripts rely on these names.
#include "report/model/names.h"

namespace culprit::report {

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

const char* heap_search_name(format::HeapSearch state) {
  using format::HeapSearch;
  switch (state) {
    case HeapSearch::kDone:
      return "done";
    case HeapSearch::kStopped:
      return "stopped";
    case HeapSearch::kNotRun:
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
