#include "interpose/process/exit_handlers.h"

#include <stdlib.h>

#include <atomic>

#include "interpose/base/placement.h"
#include "interpose/base/prepared.h"
#include "interpose/process/rooms_above.h"
#include "interpose/stacks/stack.h"

namespace culprit {
namespace {

CULPRIT_AT_LOAD std::atomic<bool> registered{false};

}  // namespace

void register_exit_handlers() {
  // Already registered: a second attach, or a fork child.
  ensure_prepared();
  if (registered.load(std::memory_order_relaxed) || rooms_above.at_exit == nullptr) return;
  // A signal handler may have interrupted exit(), which holds the lock of on_exit(): then the next new thread or stack
  // registers the handlers.
  if (is_in_signal_handler() || registered.exchange(true)) return;
  on_exit(rooms_above.at_exit, nullptr);
  at_quick_exit(rooms_above.at_quick_exit);
}

}  // namespace culprit
