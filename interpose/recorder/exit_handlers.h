// When the handlers for the end of the process are registered: with the first dump, so that they run before the
// destructors of globals that were constructed earlier. entry/lifecycle.cpp has the handlers.
#pragma once

namespace culprit {

// Call once, at load: the handlers for on_exit() and at_quick_exit().
void prepare_exit_handlers(void (*at_exit)(int status, void*), void (*at_quick_exit)());

// Registers them, once. Called when recording starts, and at each new stack. Does nothing inside a signal handler. On
// the tracker's own stack only. Thread-safe.
void register_exit_handlers();

}  // namespace culprit
