// The rows of causes and evidence, and the names of errors in the JSON report. Scripts rely on the names.
#include "report/model/report_model.h"

namespace culprit::report {
namespace {

constexpr CauseRow kCauseRows[] = {
#define CAUSE(enumerator, name, while_running, title, title_while_running, colour, sentence) \
  {name, WhileRunning::while_running, title, title_while_running, colour, sentence},
#include "report/model/causes.def"
};

constexpr EvidenceRow kEvidenceRows[] = {
#define EVIDENCE(enumerator, function, name, cause, label, event) {name, Cause::cause, label, event},
#include "report/model/causes.def"
};

}  // namespace

const CauseRow& row_of(Cause cause) { return kCauseRows[static_cast<std::size_t>(cause)]; }

const EvidenceRow& row_of(EvidenceType type) { return kEvidenceRows[static_cast<std::size_t>(type)]; }

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
