#include "report/model/balance.h"

#include <algorithm>

namespace culprit::report {

const char* balance_name(BalancePart part) {
  switch (part) {
#define BALANCE_PART(enumerator, name, words, advice) \
  case BalancePart::enumerator:                       \
    return name;
#include "report/model/balance.def"
  }
  return "rest";
}

const char* balance_words(BalancePart part) {
  switch (part) {
#define BALANCE_PART(enumerator, name, words, advice) \
  case BalancePart::enumerator:                       \
    return words;
#include "report/model/balance.def"
  }
  return "";
}

const char* balance_advice(BalancePart part) {
  switch (part) {
#define BALANCE_PART(enumerator, name, words, advice) \
  case BalancePart::enumerator:                       \
    return advice;
#include "report/model/balance.def"
  }
  return "";
}

const char* moment_name(format::Moment moment) {
  switch (moment) {
    case format::Moment::kPeak:
      return "peak";
    case format::Moment::kOutOfMemory:
      return "out-of-memory";
    case format::Moment::kExit:
      return "exit";
    case format::Moment::kNone:
      return "now";
  }
  return "unknown";
}

std::int64_t Balance::explained() const {
  std::int64_t bytes = 0;
  for (const BalanceItem& item : items) bytes += item.what == BalancePart::kRest ? 0 : item.bytes;
  return bytes;
}

std::int64_t Balance::bytes_of(BalancePart part) const {
  std::int64_t bytes = 0;
  for (const BalanceItem& item : items) bytes += item.what == part ? item.bytes : 0;
  return bytes;
}

bool Balance::is_not_known(BalancePart part) const {
  return std::any_of(not_known.begin(), not_known.end(), [&](const BalanceItem& item) { return item.what == part; });
}

const char* problem_words(format::GpuProblem problem) {
  switch (problem) {
    case format::GpuProblem::kNone:
      return "";
    case format::GpuProblem::kNoRun:
      return "the process was started without culprit run, which asks NVML for its own figure";
    case format::GpuProblem::kNotReached:
      return "the process cannot reach culprit run: it is on another node, in another container or root directory, or "
             "of another user";
    case format::GpuProblem::kLate:
      return "NVML's answer came too late";
    case format::GpuProblem::kNoTime:
      return "questions to NVML had taken a hundredth of the time";
    case format::GpuProblem::kInCapture:
      return "a stream was being captured, or another thread was asking NVML";
    case format::GpuProblem::kNoNvml:
      return "NVML cannot be used where culprit run is";
    case format::GpuProblem::kNotShown:
      return "NVML does not show this GPU or MIG instance where culprit run is";
    case format::GpuProblem::kNoList:
      return "NVML does not list the processes of this GPU or MIG instance";
    case format::GpuProblem::kOtherNumbers:
      return "NVML names processes by the numbers of another PID namespace";
    case format::GpuProblem::kNotListed:
      return "NVML does not list this process: it is a client of MPS, or in a container that hides it";
    case format::GpuProblem::kNoFigure:
      return "NVML has no figure for this process (WSL, MPS)";
    case format::GpuProblem::kTooMany:
      return "more processes of the run than 64 ask at the same time";
    case format::GpuProblem::kInHandler:
      return "the call was made in a signal handler";
  }
  return "a newer version of culprit wrote the reason";
}

const char* problem_advice(format::GpuProblem problem) {
  switch (problem) {
    case format::GpuProblem::kNoRun:
      return "culprit run -- ./app, of a job: srun culprit run -- ./app";
    case format::GpuProblem::kNotReached:
      return "start culprit run where the process runs: srun culprit run -- ./app";
    case format::GpuProblem::kNoNvml:
    case format::GpuProblem::kNotShown:
      return "culprit doctor says why";
    case format::GpuProblem::kNoList:
      return "as root: culprit run -- ./app";
    case format::GpuProblem::kOtherNumbers:
    case format::GpuProblem::kNotListed:
      return "culprit run outside of the container, or in one with --pid=host; without MPS";
    default:
      return "";
  }
}

BalancePart part_of(format::DriverMemory what) {
  switch (what) {
#define DRIVER_MEMORY(number, enumerator) \
  case format::DriverMemory::enumerator:  \
    return BalancePart::enumerator;
#include "interpose/format/driver_memory.def"
    case format::DriverMemory::kNone:
      break;
  }
  return BalancePart::kRest;
}

}  // namespace culprit::report
