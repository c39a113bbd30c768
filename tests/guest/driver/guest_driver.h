// What the fake driver exports besides CUDA's functions. A program declares them weak: NVIDIA's driver has none of
// them.
#pragma once

#include <stdint.h>

extern "C" {

// How many calls of an exported function have been made, by its exported name (cuMemAlloc_v2); 0 for a name that the
// fake driver does not simulate.
__attribute__((weak, visibility("default"))) uint64_t guestDriverCalls(const char* name);

// How many pieces of memory, events, streams and contexts live.
__attribute__((weak, visibility("default"))) uint64_t guestDriverLive(void);

// From now on each call that makes or frees memory takes this much stack (a page at most), as NVIDIA's does.
__attribute__((weak, visibility("default"))) void guestDriverUseStack(uint64_t bytes);
}
