// Capturing the calling thread's stack. stack_libunwind.cpp is the back end that CMake links.
#pragma once

#include <cstdint>

namespace culprit {

constexpr int kMaxStackDepth = 256;

// Addresses, innermost first. Bit 63 (format::kFrameExact) marks an address that is itself where the frame stands,
// because a signal interrupted it; all others are return addresses.
struct RawStack {
  int count;
  bool truncated;
  std::uint64_t frames[kMaxStackDepth];
};

struct StackChecks;

// Walks the calling thread's stack. Leading frames inside libculprit.so are left out. `depth` is the most frames kept
// (1 to kMaxStackDepth). `frame`: the frame address of the hook that was called (see StackMemo), nullptr when there is
// none; `checks` receives what has to be compared to know this stack again. Both may be null together. Never allocates
// through malloc; takes no lock. Thread-safe; not to be entered again from a
// signal handler of the same thread (the hook guard sees to that).
void capture_stack(int depth, const std::uint64_t* frame, RawStack* stack, StackChecks* checks);

// Looks for the frame of one of our functions whose frame address is `frame` among those of the calling thread. On the
// tracker's own stack only.
enum class FrameSearch {
  kFound,
  kBehindSignal,  // found, and a signal frame lies in between: a handler runs that interrupted what it called
  kGone,
  kGoneBehindSignal,  // gone, and a signal handler runs
  kNotKnown,          // the stack could not be walked to its end
};
FrameSearch find_frame(std::uint64_t frame);

// Whether the calling thread runs a signal handler. On the tracker's own stack only.
bool is_in_signal_handler();

// From now on leading frames in these ranges of addresses are left out too: libcuda's and CUPTI's, when the latter
// tells of a call from inside the former. `count`: at most 2; 0 = none any more. Not thread-safe.
struct CodeRange {
  std::uint64_t begin;
  std::uint64_t end;
};
void leave_out_leading(const CodeRange* ranges, int count);

// Forgets what the unwinder remembers of code that is no longer mapped. Call after a module went away.
void forget_unwind_information();

}  // namespace culprit
