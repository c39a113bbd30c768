// From the address or name of a driver function to its row, and from a row to the function that its hook must call.
// (From a row to our hook: hook_address() in hooks/hooks.h.)
#pragma once

#include <cstdint>

#include "interpose/base/hash.h"
#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/driver/loaded_drivers.h"

namespace culprit {

struct ElfModule;

// A driver's function that has a row.
struct HookedFunction {
  Api api;
  int thunks;  // of its driver (loaded_drivers.h); 0 = the first driver, which our exported functions lead to
};

// The row of the function at `address` in a driver. Returns false when it is not hooked.
bool find_hooked(const void* address, HookedFunction* function);

// The row of an ELF symbol. Returns false when it is not hooked.
bool find_hooked_name(const char* symbol, Api* api);

inline std::uint32_t row_slot(const void* address) {
  return static_cast<std::uint32_t>(mix(reinterpret_cast<std::uint64_t>(address))) % LoadedDriver::kRowSlots;
}

extern CULPRIT_OWN void* next_addresses[kApiCount];
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
// Another interposer's function.
void set_next_address(Api api, void* address);

// Leads the hooks to the first driver (nullptr: there is none); with `others`, to dispatch_x86_64.S, which chooses by
// thread. Called with the lock of loaded_drivers.cpp.
void connect_hooks(const LoadedDriver* first, bool others);

// Call once, at load: stand_in(api) is asked at the first call of each hook. Where it gives a function, the hook calls
// that one, which forwards to address_behind_stand_in(api).
void prepare_stand_ins(void* (*stand_in)(Api));
void* address_behind_stand_in(Api api);

// Finds other preloaded libraries that define CUDA functions and come after us in lookup order. Call once, at load.
void find_other_interposers();
// Whether it is one of these.
bool is_other_interposer(const ElfModule& module);

}  // namespace culprit
