// The threads that may be inside the tracker. A detach waits until none of them uses the memory that it is about to
// free. A fork child begins with an empty list.
#pragma once

#include "interpose/process/thread_state.h"

namespace culprit {

// Adds the calling thread, and watches for its end; `thread_state.in_tracker` must be set. Returns false when the
// thread is past its end and may not use the tracker any more. Cheap for a known thread. On the tracker's own stack
// only.
bool know_this_thread();

// The calling thread ends.
void forget_this_thread();

// Waits, at most `limit_ms`, until every known thread except the caller was seen outside of hooks and the tracker once.
// Each thread's earlier work is then over, and its later work sees the caller's earlier stores. One caller at a time.
// `met`: since those stores all threads went through a memory barrier, which meet_other_threads() takes long for.
bool wait_for_threads(int limit_ms, bool met = false);

// Calls visit(state, data) for each known thread, under the list's lock: `visit` must not call back.
void for_each_known_thread(void (*visit)(ThreadState* state, void* data), void* data);

template <typename Visit>
void for_each_known_thread(Visit visit) {
  for_each_known_thread([](ThreadState* state, void* data) { (*static_cast<Visit*>(data))(state); }, &visit);
}

// For work in a thread that may not record: code that an injector runs in an arbitrary thread, the end of the process,
// the exported functions. Makes a detach wait for it. The end of such a thread may go
// unnoticed, and its ThreadState's memory may be reused. So the destructor removes the thread from the list, unless it
// was known before. On the tracker's own stack only.
class VisitInTracker {
 public:
  VisitInTracker();
  ~VisitInTracker();
  VisitInTracker(const VisitInTracker&) = delete;
  VisitInTracker& operator=(const VisitInTracker&) = delete;

 private:
  bool leaves_;
  bool before_;
};

}  // namespace culprit
