#include "interpose/attach/swap_word.h"

#ifdef __x86_64__
// Defined by the linker.
extern "C" const culprit::format::FaultEntry __start_culprit_fault_table[] __attribute__((visibility("hidden")));
extern "C" const culprit::format::FaultEntry __stop_culprit_fault_table[] __attribute__((visibility("hidden")));

// Seen by `culprit attach` from outside.
extern "C" __attribute__((visibility("default"))) const culprit::format::FaultTable culprit_faults;
const culprit::format::FaultTable culprit_faults = {__start_culprit_fault_table, __stop_culprit_fault_table};
#endif
