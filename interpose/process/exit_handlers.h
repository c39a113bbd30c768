// When the handlers for the end of the process are registered: with the first dump. entry/lifecycle.cpp has the
// handlers.
#pragma once

namespace culprit {

// Registers the handlers of RoomsAbove, once. Called when recording starts, and at each new stack. Does nothing inside
// a signal handler. On the tracker's own stack only. Thread-safe.
// `first`: registers RoomsAbove::before_exit, too, which runs before any object of the program is destroyed.
void register_exit_handlers(bool first);

// Runs at exit(), before the handlers that were registered earlier. Without effect where libc has no such function.
void at_exit_with_status(void (*function)(int status, void*));
// The same at quick_exit().
void at_quick_end(void (*function)());

// The program registered a handler of its own: moves RoomsAbove::before_exit, so that it is the first one. exit() calls
// handlers in the reverse order. Does nothing before register_exit_handlers().
void keep_first_handler();
// The same for quick_exit().
void keep_first_quick_handler();
// The same for the destructors of the calling thread's thread-local objects, which exit() calls before any handler.
// Only the main thread's matter: a search at exit() looks at no others.
void keep_first_destructor();

// A library was unloaded: takes those out of libc's list that keep_first_handler() has left behind. The list never
// shrinks while its last handler is in use, so that it would grow with each plugin that is loaded and unloaded.
void drop_former_handlers();

// The handlers are running: these four do nothing any more. Returns whether this is the first call: exit() calls each
// handler that keep_first_handler() has left in its list.
bool end_handlers();

// Whether exit() or quick_exit() has begun to call them. Any thread.
bool handlers_are_running();

}  // namespace culprit
