/* How the last unwinding step found the caller's frame: this decides whether a stack may be remembered (stack_memo.h).
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

struct culprit_function {
  unsigned long begin;
  unsigned long end;
  unsigned long lsda; /* 0 = none */
  int is_part;        /* split off by the compiler: its frame already exists at its begin */
};

/* The function at `address` according to the unwind tables. Returns 0, or a negative number when they have no entry. Do
 * not call while this thread is inside libunwind. */
__attribute__((visibility("hidden"))) int culprit_function_at(unw_word_t address, struct culprit_function* function);

#ifdef __cplusplus
}
#endif
