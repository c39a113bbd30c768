// The calling thread's stack, as a number in the dump and as a path (thread_paths.h).
#pragma once

#include "interpose/base/placement.h"
#include "interpose/base/skip_lock.h"
#include "interpose/call_stack/stack_collection.h"
#include "interpose/call_stack/view_requests.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/process/process.h"
#include "interpose/process/thread_memory.h"
#include "interpose/process/thread_state.h"
#include "interpose/stacks/stack.h"
#include "interpose/stacks/stack_memo.h"

namespace culprit {

// The process with the parts of this room.
struct CallStackState : ViewState {
  StackCollection collection;
  // Held while a breakdown is made, and while a collection frees stacks: breakdowns lose entries.
  SkipLock breakdown_lock;
};
inline SkipLock& breakdown_lock_of(Process& process) { return static_cast<CallStackState&>(process).breakdown_lock; }

// Advances a collection of stacks, if one is due. Call before the calling thread stores a new stack, when it holds only
// the stacks in its StackHolder. On the tracker's own stack only.
void collect_stacks(Process& process);

// Protects these stacks (0 = none) from a collection until the next call, also after this Recording: for stacks that
// the calling thread holds outside its StackHolder. Call in the Recording in which it got them. `nesting` (0 or
// 1): how many other pairs of stacks the thread keeps that stay protected.
void keep_stacks(int nesting, format::Ref first, format::Ref second);

// The path of a stack that this thread just walked, 0 if it could not be stored. This and the next two functions run on
// the tracker's own stack only.
std::uint32_t intern_path(const RawStack& stack, const StackChecks& checks);

// The path of the calling thread's stack as far as it can be walked, beyond CULPRIT_DEPTH. 0 if it could not be stored.
std::uint32_t walk_path(const std::uint64_t* frame);

// The stack of a path's frames from `node` outward. `innermost`: replaces the address of the first frame; 0 = keep it.
format::Ref intern_outward(Process& process, const ThreadPaths& paths, std::uint32_t node, std::uint64_t innermost);

// current_stack() when the stack is not in the memo.
CULPRIT_COLD format::Ref find_current_stack(Process& process);

// Looks for an interpreter when modules were loaded since the last call, and has its frames read from then on. On the
// tracker's own stack only. Thread-safe.
void look_for_python(Process& process);

// `native` with the calling thread's Python frames. Call when kModePython is set.
format::Ref add_python_frames(Process& process, format::Ref native);
inline format::Ref with_python_frames(Process& process, format::Ref native) {
  if (CULPRIT_LIKELY((process.mode.load(std::memory_order_acquire) & kModePython) == 0)) return native;
  return add_python_frames(process, native);
}

// The calling thread's stack as a number in the dump, 0 if it could not be stored.
CULPRIT_HOT inline format::Ref current_stack(Process& process) {
  std::uint32_t generation = module_generation();
  // The saved rbp and the return address of the hook that the user's thread called.
  const auto* frame = reinterpret_cast<const std::uint64_t*>(thread_state.outermost_hook);
  const std::uint32_t slow = process.mode.load(std::memory_order_relaxed) & kModesOfStacks;
  if (CULPRIT_LIKELY(slow == 0) && CULPRIT_LIKELY(frame != nullptr) && CULPRIT_LIKELY(thread_state.memory != nullptr)) {
    format::Ref ref = thread_state.memory->stacks.look_up(frame, generation, &thread_state.paths.current);
    if (CULPRIT_LIKELY(ref != 0)) {
      if (CULPRIT_LIKELY(thread_state.paths.all != nullptr)) thread_state.paths.all->see(thread_state.paths.current);
      return with_python_frames(process, ref);
    }
  }
  return find_current_stack(process);
}

// The path of the calling thread's stack (thread_paths.h), which counts as seen from now on; 0 if it could not be
// stored.
inline ThreadPaths::Path current_path(Process& process) {
  current_stack(process);
  return thread_state.paths.current;
}

}  // namespace culprit
