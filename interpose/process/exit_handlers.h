// When the handlers for the end of the process are registered: with the first dump, so that they run before the
// destructors of globals that were constructed earlier. entry/lifecycle.cpp has the handlers.
#pragma once

namespace culprit {

// Registers the handlers of RoomsAbove, once. Called when recording starts, and at each new stack. Does nothing inside
// a signal handler. On the tracker's own stack only. Thread-safe.
void register_exit_handlers();

}  // namespace culprit
