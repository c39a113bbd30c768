// Capturing the calling thread's stack. stack_libunwind.cpp defines all functions: it is the back end that CMake links.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace culprit {

constexpr int kMaxStackDepth = 256;

// Addresses, innermost first. Bit 63 (format::kFrameExact) marks the address of the frame's current instruction, for a
// frame that a signal interrupted; all others are return addresses.
struct RawStack {
  int count;
  bool truncated;
  std::uint64_t frames[kMaxStackDepth];
};

struct StackChecks;

// Walks the calling thread's stack. Leading frames inside libculprit.so are left out. `depth` is the most frames kept
// (1 to kMaxStackDepth). `frame`: the frame address of the hook that was called (see StackMemo), nullptr when there is
// none; `checks` receives the words to compare in order to recognize this stack again. Both may be null together. Never
// allocates through malloc; takes no lock. Thread-safe; not reentrant from a signal handler of the same thread (the
// hook guard prevents that).
void capture_stack(int depth, const std::uint64_t* frame, RawStack* stack, StackChecks* checks);

// capture_stack() from these registers on instead of the caller's: for tests.
void capture_stack_of(ucontext_t* registers, int depth, const std::uint64_t* frame, RawStack* stack,
                      StackChecks* checks);

// The frame of a function that runs: its variables lie from the stack pointer up to its CFA.
struct WalkedFrame {
  std::uint64_t stack_pointer;
  std::uint64_t cfa;      // 0: of the outermost frame, which has none
  std::uint64_t address;  // a return address; of the innermost frame of a stopped thread the current instruction
};

// Walks the calling thread's stack, or with `registers` that of a thread that does not run meanwhile, and that was
// stopped anywhere. Returns the number of frames, innermost first; 0: the walk did not reach the outermost frame, or
// there are more than `capacity`. On the tracker's own stack only.
int walk_frames(ucontext_t* registers, WalkedFrame* frames, int capacity);

// The registers of a function that must be preserved for it while another one runs, and its stack pointer.
struct PreservedRegisters {
  static constexpr int kCount = 6;
  std::uint64_t words[kCount];
  std::uint64_t stack_pointer;
};

// Finds the innermost function of the calling thread's stack that is none of ours and for which is_passed(address)
// returns false: `*found` has its registers when the call that goes on returns. Returns false when there is none, or
// the stack cannot be walked so far. On the tracker's own stack only.
bool find_function_below(bool (*is_passed)(std::uint64_t address), PreservedRegisters* found);

// Searches the calling thread's stack for the frame of one of our functions with the frame address `frame`. On the
// tracker's own stack only.
enum class FrameSearch {
  kFound,
  kBehindSignal,  // found, with a signal frame in between: a handler runs that interrupted the frame or its callees
  kGone,
  kGoneBehindSignal,  // gone; a signal handler runs
  kNotKnown,          // the stack could not be walked to its end
  kOnOtherStack,      // of a user thread, which may go on in that function
};
FrameSearch find_frame(std::uint64_t frame);

// Whether a frame of the calling thread's stack is in code from `begin` on of so many bytes. On the tracker's own stack
// only.
bool runs_code(std::uint64_t begin, std::uint64_t bytes);

// The frame address of the innermost of our functions that other code called, 0 if it is not found: of the hook, or of
// the stub, that the thread is in. On the tracker's own stack only.
std::uint64_t find_hook_frame();

// Whether the calling thread runs a signal handler. On the tracker's own stack only.
bool is_in_signal_handler();

// From now on leading frames in these address ranges are left out too: those of libcuda and CUPTI, whose callbacks come
// from inside libcuda. `count`: at most 2; 0 = no ranges. Not thread-safe.
struct CodeRange {
  std::uint64_t begin;
  std::uint64_t end;
};
void leave_out_leading(const CodeRange* ranges, int count);

// Clears the unwinder's caches for code that is no longer mapped. Call after a module was unloaded.
void forget_unwind_information();

}  // namespace culprit
