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

const char* lost_search_name(format::LostSearch state) {
  using format::LostSearch;
  switch (state) {
    case LostSearch::kDone:
      return "done";
    case LostSearch::kGivenUp:
      return "given-up";
    case LostSearch::kThreads:
      return "threads";
    case LostSearch::kPython:
      return "python";
    case LostSearch::kAllocator:
      return "allocator";
    case LostSearch::kNotAllRecorded:
      return "not-all-recorded";
    case LostSearch::kDeviceCode:
      return "device-code";
    case LostSearch::kDriverObjects:
      return "driver-objects";
    case LostSearch::kShared:
      return "shared";
    case LostSearch::kDeviceNotRead:
      return "device-not-read";
    case LostSearch::kUnreadable:
      return "unreadable";
    case LostSearch::kKernelHolds:
      return "kernel-holds";
    case LostSearch::kDestructors:
      return "destructors";
    case LostSearch::kThreadsNotStopped:
      return "threads-not-stopped";
    case LostSearch::kNotRun:
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
