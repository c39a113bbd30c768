#include "interpose/process/exit_handlers.h"

#include <atomic>

#include "interpose/base/placement.h"
#include "interpose/loader/next_functions.h"
#include "interpose/process/rooms_above.h"
#include "interpose/stacks/stack.h"
#include "interpose/system/prepared.h"

namespace culprit {
namespace {

CULPRIT_AT_LOAD std::atomic<bool> registered{false};
// Handlers that are registered from now on would run before ours.
CULPRIT_AT_LOAD std::atomic<bool> first_is_ours{false};

}  // namespace

void at_exit_with_status(void (*function)(int status, void*)) {
  if (const OnExitFunction libcs = on_exit_of_libc()) libcs(function, nullptr);
}

// The function gets an argument that it does not take.
void at_quick_end(void (*function)()) {
  if (const AtQuickExitFunction libcs = at_quick_exit_of_libc())
    libcs(reinterpret_cast<void (*)(void*)>(function), nullptr);
}

void register_exit_handlers(bool lost) {
  // Already registered: a second attach, or a fork child.
  ensure_prepared();
  if (registered.load(std::memory_order_relaxed) || rooms_above.at_exit == nullptr) return;
  // A signal handler may have interrupted exit(), which holds the lock of on_exit(): then the next new thread or stack
  // registers the handlers.
  if (is_in_signal_handler() || registered.exchange(true)) return;
  at_exit_with_status(rooms_above.at_exit);
  at_quick_end(rooms_above.at_quick_exit);
  if (!lost) return;
  at_exit_with_status(rooms_above.before_exit);
  at_quick_end(rooms_above.before_quick_exit);
  first_is_ours.store(true, std::memory_order_relaxed);
}

void keep_first_handler() {
  if (first_is_ours.load(std::memory_order_relaxed)) at_exit_with_status(rooms_above.before_exit);
}

void keep_first_quick_handler() {
  if (first_is_ours.load(std::memory_order_relaxed)) at_quick_end(rooms_above.before_quick_exit);
}

void end_handlers() { first_is_ours.store(false, std::memory_order_relaxed); }

}  // namespace culprit
