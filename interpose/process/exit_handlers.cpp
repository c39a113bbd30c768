#include "interpose/process/exit_handlers.h"

#include <stdlib.h>

#include <atomic>

#include "interpose/base/placement.h"
#include "interpose/process/rooms_above.h"
#include "interpose/stacks/stack.h"
#include "interpose/system/prepared.h"

namespace culprit {
namespace {

CULPRIT_AT_LOAD std::atomic<bool> registered{false};
// Handlers that are registered from now on would run before ours.
CULPRIT_AT_LOAD std::atomic<bool> first_is_ours{false};

}  // namespace

void register_exit_handlers(bool lost) {
  // Already registered: a second attach, or a fork child.
  ensure_prepared();
  if (registered.load(std::memory_order_relaxed) || rooms_above.at_exit == nullptr) return;
  // A signal handler may have interrupted exit(), which holds the lock of on_exit(): then the next new thread or stack
  // registers the handlers.
  if (is_in_signal_handler() || registered.exchange(true)) return;
  on_exit(rooms_above.at_exit, nullptr);
  at_quick_exit(rooms_above.at_quick_exit);
  if (!lost) return;
  on_exit(rooms_above.before_exit, nullptr);
  at_quick_exit(rooms_above.before_quick_exit);
  first_is_ours.store(true, std::memory_order_relaxed);
}

void keep_first_handler() {
  if (!first_is_ours.load(std::memory_order_relaxed)) return;
  on_exit(rooms_above.before_exit, nullptr);
}

void end_handlers() { first_is_ours.store(false, std::memory_order_relaxed); }

}  // namespace culprit
