/* How the last unwinding step found the caller's frame: what decides whether a stack may be remembered (stack_memo.h).
 */
#pragma once

#ifndef UNW_LOCAL_ONLY
#define UNW_LOCAL_ONLY
#endif
#include <libunwind.h>

#ifdef __cplusplus
extern "C" {
#endif

struct culprit_unwind_rule {
  int known;     /* 1: CFA is a constant offset from the stack pointer or from rbp, the return address lies at CFA-8 */
  int from_rbp;  /* the CFA came from rbp */
  int rbp_saved; /* the frame saved the caller's rbp ... */
  long rbp_cfa_offset; /* ... at CFA plus this */
};

/* Like unw_step(), and describes the step in `rule`. */
__attribute__((visibility("hidden"))) int culprit_unwind_step(unw_cursor_t* cursor, struct culprit_unwind_rule* rule);

#ifdef __cplusplus
}
#endif
