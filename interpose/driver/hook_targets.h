// The function that each hook calls: the driver's, or that of another interposer between us and libcuda.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"

namespace culprit {

struct ElfModule;

// The function of each row, or its stand-in; nullptr: to be looked up at the next call (next_address()).
extern CULPRIT_OWN void* next_addresses[kApiCount];

// The function, without a stand-in; nullptr: not known.
void* found_address(Api api);

// Another interposer's function.
void set_next_address(Api api, void* address);

// Leads the hooks to the first driver, which has these functions (nullptr: there is none); with `others`, to
// dispatch_x86_64.S, which chooses by thread. Called with the lock of loaded_drivers.cpp.
void connect_hooks(void* const* first, bool others);

// Finds other preloaded libraries that define CUDA functions and come after us in lookup order. Call once, at load.
void find_other_interposers();
// Whether it is one of these.
bool is_other_interposer(const ElfModule& module);

}  // namespace culprit
