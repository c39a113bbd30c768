#include "interpose/process/hook_entry.h"

#include "interpose/process/process.h"
#include "interpose/process/recording.h"

namespace culprit {
namespace {

std::uint64_t return_address(const char* frame) { return reinterpret_cast<const std::uint64_t*>(frame)[1]; }

NestingMemo::Entry describe(const char* outermost, const char* frame) {
  return {static_cast<std::uint64_t>(outermost - frame), return_address(outermost), return_address(frame)};
}

// Skips an unwind that was done before: with an interposer between the program and the driver it would be needed on
// every call.
bool is_known(const char* outermost, const char* frame) {
  if (thread_state.memory == nullptr || thread_state.in_tracker || frame >= outermost) return false;
  for (const NestingMemo::Entry& entry : thread_state.memory->nestings.entries) {
    // The outer frame is read last: it may have been on the stack of a user thread that is gone.
    if (entry.distance != static_cast<std::uint64_t>(outermost - frame) || entry.inner_return != return_address(frame))
      continue;
    const NestingMemo::Entry now = describe(outermost, frame);
    if (entry.outer_return == now.outer_return && entry.inner_return == now.inner_return) return true;
  }
  return false;
}

void remember(const char* outermost, const char* frame) {
  if (thread_state.memory == nullptr || frame >= outermost) return;
  NestingMemo& memo = thread_state.memory->nestings;
  memo.entries[memo.next++ % NestingMemo::kEntries] = describe(outermost, frame);
}

bool is_gone(FrameSearch found) { return found == FrameSearch::kGone || found == FrameSearch::kGoneBehindSignal; }

// For a hook whose frame is not on this stack: the calling thread left it by a jump, or another user thread is in it.
// Returns false if the tracker is interrupted, and nothing may be recorded now.
bool leave_hook(FrameSearch found) {
  Process* process = process_if_recording();
  const bool other = found == FrameSearch::kOnOtherStack;
  if (other && process != nullptr) process->mode.fetch_or(kModeUserThreads, std::memory_order_relaxed);
  const bool user_threads = process != nullptr && (process->mode.load() & kModeUserThreads) != 0;
  // With user threads it is not known who interrupted whom: what seems to be left by a jump may go on.
  if ((other || user_threads) && thread_state.in_tracker) return false;
  if (other) {
    // That user thread finds its frame again (find_current_stack()).
    thread_state.outermost_hook = nullptr;
  } else {
    repair_left_hook();
  }
  return true;
}

}  // namespace

Entry enter_again(const char* frame) {
  // The tracker itself called the driver, which calls back.
  if (is_on_own_stack()) return Entry::kNested;
  const char* outermost = thread_state.outermost_hook;
  if (is_known(outermost, frame)) return Entry::kNested;
  return on_own_stack([&] {
    const FrameSearch found = find_frame(reinterpret_cast<std::uint64_t>(outermost));
    // If the stack cannot be walked to its end, a frame below the hook counts as part of its call.
    if (is_gone(found) || found == FrameSearch::kOnOtherStack ||
        (found == FrameSearch::kNotKnown && frame >= outermost)) {
      if (leave_hook(found)) return Entry::kOutermost;
      count_lost_call();
      return Entry::kUnrecorded;
    }
    if (found == FrameSearch::kBehindSignal) {
      // In a fork child the interrupted hook belongs to the parent's recording, and returns before the child records.
      const Process* process = process_if_recording();
      const bool inherited = process == nullptr || process->generation != thread_state.generation;
      if (!thread_state.in_tracker && !inherited) return Entry::kInHandler;
      count_lost_call();
      return Entry::kUnrecorded;
    }
    remember(outermost, frame);
    return Entry::kNested;
  });
}

bool is_in_hook() {
  if (CULPRIT_LIKELY(thread_state.outermost_hook == nullptr)) return false;
  if (is_on_own_stack()) return true;
  return on_own_stack([] {
    const FrameSearch found = find_frame(reinterpret_cast<std::uint64_t>(thread_state.outermost_hook));
    return (!is_gone(found) && found != FrameSearch::kOnOtherStack) || !leave_hook(found);
  });
}

}  // namespace culprit
