// Entering a hook while the calling thread is, or seems to be, in another one.
//
// Four things look alike then: the driver or another interposer calls back while it serves the user's call; a signal
// handler interrupted the hook, and calls CUDA; it interrupted the tracker's own work in the hook; or the thread left
// the hook by a jump or a cancellation, and nothing told us. An unwind tells them apart: is the hook's frame on the
// stack, and is there a signal frame in between?
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"

namespace culprit {

enum class Entry : std::uint8_t {
  kOutermost,   // the user's call, to be recorded
  kNested,      // on behalf of a call that is being recorded
  kInHandler,   // a signal handler's call, to be recorded
  kUnrecorded,  // a signal handler's call that interrupted the tracker: counted
};

// What the hook with this frame address is, thread_state.outermost_hook being set. A hook that was left is repaired and
// counted (repair_left_hook()). Leaves errno alone.
CULPRIT_COLD Entry enter_again(const char* frame);

// Whether the calling thread is in a hook. One that was left is repaired and counted.
bool is_in_hook();

// Another interposer nests a call in each of the user's: what one unwind found out holds for all calls that look the
// same. One a thread; all zeros = empty.
struct NestingMemo {
  struct Entry {
    std::uint64_t distance;  // between the two frames, 0 = unused
    std::uint64_t outer_return;
    std::uint64_t inner_return;
  };
  static constexpr std::uint32_t kEntries = 4;
  Entry entries[kEntries];
  std::uint32_t next;
};

}  // namespace culprit
