// The threads that may be inside the tracker, so that a detach can wait until none of them uses what it is about to
// give back. A fork child begins with none.
#pragma once

#include "interpose/recorder/thread_state.h"

namespace culprit {

// Adds the calling thread; `thread_state.in_tracker` must be set. Its end is watched. False when the thread is past its
// end: it may not use the tracker any more. Cheap when it is known. On the tracker's own stack only.
bool know_this_thread();

// The calling thread ends.
void forget_this_thread();

// Waits, one caller at a time, until every known thread but the calling one was seen outside of hooks and of the
// tracker once, at most `limit_ms`. What it did before is then over, and what it does afterwards sees what the caller
// had stored before.
bool wait_for_threads(int limit_ms);

// Calls visit(state) for each known thread. It must not call back.
void for_each_known_thread(void (*visit)(ThreadState* state));

// For what an injector runs in a thread that it came upon: a detach waits for it. The thread may be past the point
// where its end is noticed, and its memory would go to another thread while it is known: so it is known afterwards only
// if it was before. On the tracker's own stack only.
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
