#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "interpose/dump_format.h"
#include "interpose/own_module.h"
#include "interpose/stack.h"

namespace culprit {

void capture_stack(int depth, RawStack* stack) {
  stack->count = 0;
  stack->truncated = false;
  unw_context_t context;
  unw_cursor_t cursor;
  if (unw_getcontext(&context) != 0 || unw_init_local(&cursor, &context) != 0) return;
  bool leading = true;
  bool exact = false;
  while (unw_step(&cursor) > 0) {
    unw_word_t address;
    if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || address == 0) return;
    if (leading && in_own_module(address)) continue;
    leading = false;
    bool is_signal_frame = unw_is_signal_frame(&cursor) > 0;
    if (stack->count == depth) {
      stack->truncated = true;
      return;
    }
    // A signal trampoline was never called, and the frame it interrupted stands exactly at its address.
    stack->frames[stack->count++] = address | (exact || is_signal_frame ? format::kFrameExact : 0);
    exact = is_signal_frame;
  }
}

void forget_unwind_information() { unw_flush_cache(unw_local_addr_space, 0, 0); }

}  // namespace culprit
