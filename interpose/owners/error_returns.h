// Which allocations a failed call may have left behind: those whose owner saw the failure.
//
// The owner of an allocation, as seen from the failing call, is the innermost activation that both share
// (thread_paths.h): the function that, directly or not, made both the allocation and the failed call. Whether it
// returned without freeing is known at the end of the process. At the failure, each allocation with an owner gets the
// failed call as evidence; the evidence is removed when a retry of the call succeeds.
#pragma once

#include <cstdint>

#include "interpose/dump/dump_writer.h"
#include "interpose/dump/event_tables.h"
#include "interpose/format/dump_format.h"
#include "interpose/owners/abandoned.h"
#include "interpose/owners/thread_paths.h"

namespace culprit {

// Where the evidence is written.
struct EvidencePlace {
  EvidenceTable& evidence;
  DumpWriter& dump;
};

// The part of ThreadState (process/thread_state.h) that tells whether a call must be looked at.
struct FailureWatch {
  bool injected;                // the driver call of the hook it is in was made to fail by CULPRIT_FAIL
  std::uint8_t calls_to_watch;  // number of next successful calls that may be a retry of a failed one
};

// The failed calls of a thread that it may still retry. All zeros = none.
class PendingFailures {
 public:
  // A call failed: marks the allocations that it may have left behind. `call` is its FailedCallRecord, `path` its path.
  void failed(const EvidencePlace& place, ThreadPaths& paths, ThreadPaths::Path path, format::Ref call,
              FunctionAt function_at);

  // A call succeeded. If it matches a failed call (the same driver function from the same place, or an allocation of
  // the same size from any place), it was the retry, and the failure's marks are removed. `before`: the paths' clock
  // before this call was recorded.
  void succeeded(const EvidencePlace& place, ThreadPaths& paths, ThreadPaths::Path path, std::uint16_t api,
                 std::uint64_t bytes, std::uint32_t before, FunctionAt function_at);

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
