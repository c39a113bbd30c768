#include "interpose/recorder/exit_handlers.h"

#include <stdlib.h>

#include <atomic>

#include "interpose/base/placement.h"
#include "interpose/base/prepared.h"
#include "interpose/stacks/stack.h"

namespace culprit {
namespace {

CULPRIT_AT_LOAD void (*exit_handler)(int status, void*);
CULPRIT_AT_LOAD void (*quick_exit_handler)();
CULPRIT_AT_LOAD std::atomic<bool> registered{false};

}  // namespace

CULPRIT_LOADING void prepare_exit_handlers(void (*at_exit)(int status, void*), void (*at_quick_exit)()) {
  exit_handler = at_exit;
  quick_exit_handler = at_quick_exit;
}

void register_exit_handlers() {
  // Already registered: a second attach, or a fork child.
  ensure_prepared();
  if (registered.load(std::memory_order_relaxed) || exit_handler == nullptr) return;
  // A signal handler may have interrupted exit(), which holds the lock of on_exit(): then the next new thread or stack
  // registers the handlers.
  if (is_in_signal_handler() || registered.exchange(true)) return;
  on_exit(exit_handler, nullptr);
  at_quick_exit(quick_exit_handler);
}

}  // namespace culprit
