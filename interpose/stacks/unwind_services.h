// Functions that our patched libunwind calls (scripts/libunwind/libunwind.patch): they replace the loader's lock, a
// cache that all threads share under a mutex, and a pipe.
#pragma once

#include <cstddef>

#include "interpose/base/loader_modules.h"
#include "interpose/base/placement.h"

extern "C" {
// Calls `visit` with the module of `address`, and returns its result; 0 when there is none.
CULPRIT_OWN int culprit_visit_module_at(unsigned long address, culprit::ModuleVisitor visit, void* data);

// A zeroed cache of this size, private to the calling thread; nullptr: unwind without a cache. Defined weakly here, for
// unit tests of the unwinder; recorder/process.cpp defines the function of the running library.
CULPRIT_OWN void* culprit_unwind_cache(std::size_t bytes);

// Whether eight bytes can be read at `address`, which a wrong frame pointer or wrong unwind tables may have led to.
CULPRIT_OWN int culprit_can_read(unsigned long address);

// Call before a stack is walked: clears the cache of readable memory from the previous walk.
CULPRIT_OWN void culprit_begin_unwinding();
}
