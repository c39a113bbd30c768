// Functions that the fake driver exports besides CUDA's. A program declares them weak, because NVIDIA's driver lacks
// them.
#pragma once

#include <stdint.h>

extern "C" {

// How many calls of an exported function have been made, by its exported name (cuMemAlloc_v2); 0 for a name that the
// fake driver does not simulate.
__attribute__((weak, visibility("default"))) uint64_t guestDriverCalls(const char* name);

// The number of live pieces of memory, events, streams and contexts.
__attribute__((weak, visibility("default"))) uint64_t guestDriverLive(void);

// From now on each call that allocates or frees memory uses this much stack (a page at most), as NVIDIA's driver does.
__attribute__((weak, visibility("default"))) void guestDriverUseStack(uint64_t bytes);

// From now on each function, except for a few queries, returns this code without looking at its arguments: -1 for
// success, 0 for its usual behaviour.
__attribute__((weak, visibility("default"))) void guestDriverAnswer(int32_t code);

// Kinds of a changed driver's functions (changed_driver.h): one returns success and does nothing, one is not supported,
// one is that of the toolkit's stub library.
__attribute__((weak, visibility("default"))) int guestDriverDoesNothing(void);
__attribute__((weak, visibility("default"))) int guestDriverRefuses(void);
__attribute__((weak, visibility("default"))) int guestDriverIsStub(void);
}
