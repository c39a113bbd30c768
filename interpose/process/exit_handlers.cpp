#include "interpose/process/exit_handlers.h"

#include <atomic>

#include "interpose/base/placement.h"
#include "interpose/loader/next_functions.h"
#include "interpose/process/rooms_above.h"
#include "interpose/process/thread_end.h"
#include "interpose/stacks/stack.h"
#include "interpose/system/own_stack.h"
#include "interpose/system/prepared.h"
#include "interpose/system/raw_calls.h"

namespace culprit {
namespace {

CULPRIT_AT_LOAD std::atomic<bool> registered{false};
// Handlers that are registered from now on would run before ours.
CULPRIT_AT_LOAD std::atomic<bool> first_is_ours{false};
CULPRIT_AT_LOAD std::atomic<bool> ended{false};

const char mark_of_ours = 0;  // __cxa_finalize() calls the handlers of its argument, and takes them out
__thread bool taking_out __attribute__((tls_model("initial-exec")));

void* mark() { return const_cast<char*>(&mark_of_ours); }

void first_handler(void*) {
  if (!taking_out) rooms_above.before_exit();
}

void add_first_handler() {
  // musl has no on_exit(), and its __cxa_finalize() does nothing.
  const AtExitFunction add = cxa_atexit_of_libc();
  if (add != nullptr && on_exit_of_libc() != nullptr) add(first_handler, nullptr, mark());
}

// The main thread may end while the process goes on.
void first_destructor(void*) {
  if (on_own_stack(exit_runs)) rooms_above.before_exit();
}

}  // namespace

void at_exit_with_status(void (*function)(int status, void*)) {
  if (const OnExitFunction libcs = on_exit_of_libc()) libcs(function, nullptr);
}

// The function gets an argument that it does not take.
void at_quick_end(void (*function)()) {
  if (const AtQuickExitFunction libcs = at_quick_exit_of_libc())
    libcs(reinterpret_cast<void (*)(void*)>(function), nullptr);
}

void register_exit_handlers(bool first) {
  // Already registered: a second attach, or a fork child.
  ensure_prepared();
  if (registered.load(std::memory_order_relaxed) || rooms_above.at_exit == nullptr) return;
  // A signal handler may have interrupted exit(), which holds the lock of on_exit(): then the next new thread or stack
  // registers the handlers.
  if (is_in_signal_handler() || registered.exchange(true)) return;
  at_exit_with_status(rooms_above.at_exit);
  at_quick_end(rooms_above.at_quick_exit);
  if (!first) return;
  add_first_handler();
  at_quick_end(rooms_above.before_exit);
  first_is_ours.store(true, std::memory_order_relaxed);
}

void keep_first_handler() {
  if (first_is_ours.load(std::memory_order_relaxed)) add_first_handler();
}

void drop_former_handlers() {
  const FinalizeFunction finalize = cxa_finalize_of_libc();
  if (finalize == nullptr || !first_is_ours.load(std::memory_order_relaxed)) return;
  taking_out = true;
  finalize(mark());
  taking_out = false;
  add_first_handler();
}

void keep_first_quick_handler() {
  if (first_is_ours.load(std::memory_order_relaxed)) at_quick_end(rooms_above.before_exit);
}

void keep_first_destructor() {
  const AtExitFunction add = next_cxa_thread_atexit();
  if (add != nullptr && !ended.load(std::memory_order_relaxed) && is_main_thread() &&
      rooms_above.before_exit != nullptr)
    add(first_destructor, nullptr, mark());
}

bool handlers_are_running() { return ended.load(std::memory_order_relaxed); }

bool end_handlers() {
  first_is_ours.store(false, std::memory_order_relaxed);
  return !ended.exchange(true, std::memory_order_relaxed);
}

}  // namespace culprit
