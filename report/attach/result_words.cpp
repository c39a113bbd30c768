#include "report/attach/result_words.h"

#include <cstring>

namespace culprit::report {

std::string describe_result(const TracedProcess& process, format::AttachResult result) {
  format::AttachRequest answer = {};
  answer.result = result;
  return describe_result(process, answer);
}

std::string describe_result(const TracedProcess& process, const format::AttachRequest& answer) {
  const std::string name = process.name();
  switch (answer.result) {
    case format::AttachResult::kDone:
      return {};
    case format::AttachResult::kNone:
    case format::AttachResult::kMore:
      break;
    case format::AttachResult::kOtherVersion:
      return "the libculprit.so in " + name + " is of another version than this culprit";
    case format::AttachResult::kPreloaded:
      return name +
             " runs under libculprit.so from its start, and records by itself: there is nothing to attach or to " +
             "detach (one that was prepared with culprit run --paused is switched by culprit start and culprit stop)";
    case format::AttachResult::kAlready:
      return name + " is attached already: culprit detach " + std::to_string(process.pid()) + " ends that";
    case format::AttachResult::kNotAttached:
      return name + " is not attached";
    case format::AttachResult::kBusy:
      return "a thread of " + name +
             " is still in a CUDA call that it made when the process was attached last: try again " + "later";
    case format::AttachResult::kLoading:
      return "another thread of " + name +
             " is loading a library and does not finish: nothing was changed; try again later";
    case format::AttachResult::kInProgress:
      return "another attach or detach is at work in " + name + ", or was broken off there: try again later";
    case format::AttachResult::kNoDump:
      return "the dump cannot be created by " + name + ": " + std::strerror(answer.error) +
             "; name a place that it may write to with --out";
    case format::AttachResult::kNoMemory:
      return name + " cannot look at its own memory (a sandbox, or no memory left): nothing was changed";
    case format::AttachResult::kNoCupti:
      return name + " has no libcupti, and none was found: set CULPRIT_CUPTI to the toolkit's libcupti.so";
    case format::AttachResult::kCuptiTaken:
      return "another tool holds CUPTI in " + name + " (a profiler): end it first, or use --backend redirect";
    case format::AttachResult::kNoDriver:
      return name + " has not used CUDA yet, and CUPTI can only be attached afterwards: use --backend redirect";
    case format::AttachResult::kCuptiFailed:
      return "CUPTI refused in " + name + ": error " + std::to_string(answer.error);
  }
  return "the libculprit.so in " + name + " gave no answer";
}

}  // namespace culprit::report
