// The threads that may be inside the tracker. Kept only when the library was loaded late, so that a detach can wait
// until none of them uses what it is about to give back. A fork child begins with none.
#pragma once

#include "interpose/thread_state.h"

namespace culprit {

// Adds the calling thread; `thread_state.in_tracker` must be set. Its end is watched. False when the thread is past its
// end: it may not use the tracker any more. Cheap when it is known.
bool know_this_thread();

// The calling thread ends.
void forget_this_thread();

// Waits, one caller at a time, until every known thread but the calling one was seen outside of hooks and of the
// tracker once, at most `limit_ms`. What it did before is then over, and what it does afterwards sees what the caller
// had stored before.
bool wait_for_threads(int limit_ms);

// Calls visit(state) for each known thread. It must not call back.
void for_each_known_thread(void (*visit)(ThreadState* state));

// For code that uses the tracker outside of hooks, around all of it: a detach waits. Does nothing when the library was
// there from the start.
class InTracker {
 public:
  InTracker();
  ~InTracker();
  InTracker(const InTracker&) = delete;
  InTracker& operator=(const InTracker&) = delete;

 private:
  bool before_;
};

// The same for what an injector runs in a thread that it came upon. That one may be past the point where its end is
// noticed, and its memory would go to another thread while it is known: so it is known afterwards only if it was
// before.
class VisitInTracker {
 public:
  VisitInTracker();
  ~VisitInTracker();
  VisitInTracker(const VisitInTracker&) = delete;
  VisitInTracker& operator=(const VisitInTracker&) = delete;

 private:
  bool leaves_;
  InTracker tracker_;
};

}  // namespace culprit
