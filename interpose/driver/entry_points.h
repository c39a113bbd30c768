// From the address or name of a driver function to its row, and from a row to the function that its hook must call.
// (From a row to our hook: hook_address() in hooks/hooks.h.)
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/driver/hook_targets.h"

namespace culprit {

// A driver's function that has a row.
struct HookedFunction {
  Api api;
  int thunks;  // of its driver (loaded_drivers.h); 0 = the first driver, which our exported functions lead to
};

// The row of the function at `address` in a driver. Returns false when it is not hooked.
bool find_hooked(const void* address, HookedFunction* function);

// The row of an ELF symbol. Returns false when it is not hooked.
bool find_hooked_name(const char* symbol, Api* api);

// Looks for libcuda when the address is not known yet, and asks for a stand-in.
void* find_next_address(Api api);

// driver_address(): the function of a row in the calling thread's driver. next_address(): the function that our hook
// calls, either the same or that of another interposer between us and libcuda. nullptr when this driver lacks the
// function.
void* driver_address(Api api);
__attribute__((always_inline)) inline void* next_address(Api api) {
  void* address = __atomic_load_n(&next_addresses[static_cast<int>(api)], __ATOMIC_RELAXED);
  return CULPRIT_LIKELY(address != nullptr) ? address : find_next_address(api);
}
// Call once, at load: stand_in(api) is asked at the first call of each hook. Where it gives a function, the hook calls
// that one, which forwards to address_behind_stand_in(api).
void prepare_stand_ins(void* (*stand_in)(Api));
void* address_behind_stand_in(Api api);

}  // namespace culprit
