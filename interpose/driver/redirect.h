// From a driver function's address or name to our hook, and from a hook to what it has to call.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"

namespace culprit {

// The row whose real function lies at `address` in libcuda. False when it is no hooked function of libcuda.
bool find_hooked(const void* address, Api* api);

// The row of an ELF symbol. False when it is not hooked.
bool find_hooked_name(const char* symbol, Api* api);

// Our hook for a row.
void* hook_address(Api api);

extern CULPRIT_OWN void* driver_addresses[kApiCount];
extern CULPRIT_OWN void* next_addresses[kApiCount];
// Looks for libcuda when the address is not known yet.
void* find_address(void* const* addresses, Api api);

// libcuda's own function of a row, and what our hook calls: the same, or another interposer's that stands between us
// and libcuda. nullptr when this driver does not have it.
__attribute__((always_inline)) inline void* driver_address(Api api) {
  void* address = __atomic_load_n(&driver_addresses[static_cast<int>(api)], __ATOMIC_RELAXED);
  return CULPRIT_LIKELY(address != nullptr) ? address : find_address(driver_addresses, api);
}
__attribute__((always_inline)) inline void* next_address(Api api) {
  void* address = __atomic_load_n(&next_addresses[static_cast<int>(api)], __ATOMIC_RELAXED);
  return CULPRIT_LIKELY(address != nullptr) ? address : find_address(next_addresses, api);
}
void set_next_address(Api api, void* address);

// From now on hooks call stand_in(api) for every row, which calls on with address_behind_stand_in(api). Call once,
// before there are threads.
void put_in_front(void* (*stand_in)(Api));
void* address_behind_stand_in(Api api);

// Whether an address lies in libcuda; whether a dlopen handle is libcuda's.
bool in_driver(const void* address);
// Where libcuda is mapped. False when it is not.
bool driver_range(std::uint64_t* begin, std::uint64_t* end);
bool is_driver_handle(const void* handle);

// Notes other preloaded libraries that define CUDA functions and stand behind us. Call once, at load.
void find_other_interposers();

}  // namespace culprit
