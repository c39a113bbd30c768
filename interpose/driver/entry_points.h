// From the address or name of a driver function to its row, and from a row to the function that its hook must call.
// (From a row to our hook: hook_address() in hooks/hooks.h.)
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"

namespace culprit {

struct ElfModule;

// Stores the addresses of all rows from libcuda's symbol table. Called by driver_ready() when it has found libcuda;
// concurrent threads store equal values.
void learn_entry_points(const ElfModule& libcuda);

// The row of the function at `address` in libcuda. Returns false when it is not hooked.
bool find_hooked(const void* address, Api* api);

// The row of an ELF symbol. Returns false when it is not hooked.
bool find_hooked_name(const char* symbol, Api* api);

extern CULPRIT_OWN void* driver_addresses[kApiCount];
extern CULPRIT_OWN void* next_addresses[kApiCount];
// Look for libcuda when the address is not known yet. find_next_address() also asks for a stand-in.
void* find_driver_address(Api api);
void* find_next_address(Api api);

// driver_address(): libcuda's own function of a row. next_address(): the function that our hook calls, either the same
// or that of another interposer between us and libcuda. nullptr when this driver lacks the function.
__attribute__((always_inline)) inline void* driver_address(Api api) {
  void* address = __atomic_load_n(&driver_addresses[static_cast<int>(api)], __ATOMIC_RELAXED);
  return CULPRIT_LIKELY(address != nullptr) ? address : find_driver_address(api);
}
__attribute__((always_inline)) inline void* next_address(Api api) {
  void* address = __atomic_load_n(&next_addresses[static_cast<int>(api)], __ATOMIC_RELAXED);
  return CULPRIT_LIKELY(address != nullptr) ? address : find_next_address(api);
}
void set_next_address(Api api, void* address);

// Call once, at load: stand_in(api) is asked at the first call of each hook. Where it gives a function, the hook calls
// that one, which forwards to address_behind_stand_in(api).
void prepare_stand_ins(void* (*stand_in)(Api));
void* address_behind_stand_in(Api api);

// Finds other preloaded libraries that define CUDA functions and come after us in lookup order. Call once, at load.
void find_other_interposers();

}  // namespace culprit
