// Which allocations a failed call may have left behind: those whose owner saw it.
//
// The owner of an allocation, as seen from the failing call, is the innermost activation that both share
// (thread_paths.h): the function that made the allocation, directly or not, and was told of the failure, directly or
// not. Whether it returned without freeing shows when the process ends and nobody did. Here, at the failure, each
// allocation with an owner gets it as evidence; it is taken back when the call is tried again with success.
#pragma once

#include <cstdint>

#include "interpose/format/dump_format.h"
#include "interpose/owners/abandoned.h"
#include "interpose/owners/thread_paths.h"

namespace culprit {

struct Process;

// The failures of a thread that may still be tried again. All zeros = none.
class PendingFailures {
 public:
  // A call failed: marks what it may have left behind. `call` is its FailedCallRecord, `path` where it was made.
  void failed(Process& process, ThreadPaths& paths, ThreadPaths::Path path, format::Ref call, FunctionAt function_at);

  // A call succeeded. The same call as one that failed (the same function of the driver from the same place, or an
  // allocation of as many bytes, wherever it is made) was that one's retry: its marks are taken back. `before`: the
  // paths' clock when the call began to be noted.
  void succeeded(Process& process, ThreadPaths& paths, ThreadPaths::Path path, std::uint16_t api, std::uint64_t bytes,
                 std::uint32_t before, FunctionAt function_at);

  void forget() { *this = {}; }

 private:
  struct Failure {
    ThreadPaths::Path path;  // 0 = unused
    std::uint32_t epoch;
    std::uint32_t clock;
    std::uint32_t newest;  // the thread's newest allocation at that time
    format::Ref call;
  };
  static constexpr int kMost = 4;
  Failure failures_[kMost];
  std::uint32_t next_;
};

}  // namespace culprit
