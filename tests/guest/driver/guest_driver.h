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

// What a function of a changed driver may be (changed_driver.h): it returns success and does nothing, is not supported,
// or is that of the toolkit's stub library.
__attribute__((weak, visibility("default"))) int guestDriverDoesNothing(void);
__attribute__((weak, visibility("default"))) int guestDriverRefuses(void);
__attribute__((weak, visibility("default"))) int guestDriverIsStub(void);
}
