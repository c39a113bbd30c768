// Maps a driver function's address or name to our hook, and a hook to the function that it must call.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"

namespace culprit {

// The row of the function at `address` in libcuda. Returns false when it is not hooked.
bool find_hooked(const void* address, Api* api);

// The row of an ELF symbol. Returns false when it is not hooked.
bool find_hooked_name(const char* symbol, Api* api);

// Our hook for a row.
void* hook_address(Api api);

extern CULPRIT_OWN void* driver_addresses[kApiCount];
extern CULPRIT_OWN void* next_addresses[kApiCount];
// Looks for libcuda when the address is not known yet.
void* find_address(void* const* addresses, Api api);

// driver_address(): libcuda's own function of a row. next_address(): the function that our hook calls, either the same
// or that of another interposer between us and libcuda. nullptr when this driver lacks the function.
__attribute__((always_inline)) inline void* driver_address(Api api) {
  void* address = __atomic_load_n(&driver_addresses[static_cast<int>(api)], __ATOMIC_RELAXED);
  return CULPRIT_LIKELY(address != nullptr) ? address : find_address(driver_addresses, api);
}
__attribute__((always_inline)) inline void* next_address(Api api) {
  void* address = __atomic_load_n(&next_addresses[static_cast<int>(api)], __ATOMIC_RELAXED);
  return CULPRIT_LIKELY(address != nullptr) ? address : find_address(next_addresses, api);
}
void set_next_address(Api api, void* address);

// From now on each hook calls stand_in(api), which forwards to address_behind_stand_in(api). Call once, before there
// are other threads.
void put_in_front(void* (*stand_in)(Api));
void* address_behind_stand_in(Api api);

// Whether an address lies in libcuda; whether a dlopen handle is libcuda's.
bool in_driver(const void* address);
// The address range of libcuda. Returns false when it is not mapped.
bool driver_range(std::uint64_t* begin, std::uint64_t* end);
bool is_driver_handle(const void* handle);

// Finds other preloaded libraries that define CUDA functions and come after us in lookup order. Call once, at load.
void find_other_interposers();

}  // namespace culprit
