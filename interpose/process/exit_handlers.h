// When the handlers for the end of the process are registered: with the first dump, so that they run before the
// destructors of globals that were constructed earlier. entry/lifecycle.cpp has the handlers.
#pragma once

namespace culprit {

// Registers the handlers of RoomsAbove, once. Called when recording starts, and at each new stack. Does nothing inside
// a signal handler. On the tracker's own stack only. Thread-safe.
// `lost`: registers RoomsAbove::before_exit, too.
void register_exit_handlers(bool lost);

// Runs at exit(), before the handlers that were registered earlier. Without effect where libc has no such function.
void at_exit_with_status(void (*function)(int status, void*));
// The same at quick_exit().
void at_quick_end(void (*function)());

// The program registered a handler of its own: registers RoomsAbove::before_exit once more, so that it is the first
// one. exit() calls handlers in the reverse order. Does nothing before register_exit_handlers().
void keep_first_handler();
// The same for quick_exit().
void keep_first_quick_handler();

// The handlers are running: keep_first_handler() and the other one do nothing any more.
void end_handlers();

}  // namespace culprit
