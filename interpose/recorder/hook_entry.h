// Entering a hook while the calling thread is, or seems to be, in another one.
//
// There are four cases: the driver or another interposer calls back while it serves the user's call; a signal handler
// interrupted the hook, and calls CUDA; a handler interrupted the tracker's own work in the hook; or the thread left
// the hook by a jump or a cancellation, unnoticed. An unwind distinguishes them: is the hook's frame on the stack, and
// is there a signal frame in between?
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

// Classifies the call of the hook with this frame address; thread_state.outermost_hook is set. If the outer hook was
// left by a jump, repairs the thread's state and counts it (repair_left_hook()). Keeps errno.
CULPRIT_COLD Entry enter_again(const char* frame);

// Whether the calling thread is in a hook. Repairs and counts a hook that was left by a jump.
bool is_in_hook();

// A cache of enter_again(): with another interposer each call of the user contains a nested one, and the result of one
// unwind holds for all calls with the same frames. One per thread; all zeros = empty.
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
