// The interpreter's memory in a frozen copy of the process. malloc's locks may be taken by threads that the copy does
// not have, so the blocks that CPython asks of malloc come from mappings of its own: at most 1 GiB of them.
#pragma once

#include "interpose/inside_python/interpreter.h"

namespace culprit {

// Only in the copy, by its single thread. Both functions of the interpreter must be there.
void take_memory_of_copy(const Interpreter& python);

}  // namespace culprit
