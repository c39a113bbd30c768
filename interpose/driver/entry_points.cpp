#include "interpose/driver/entry_points.h"

#include <cstring>

#include "interpose/base/placement.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/loaded_drivers.h"

namespace culprit {

namespace {

CULPRIT_AT_LOAD void* (*stand_in_for)(Api);

void* load(void* const* place) { return __atomic_load_n(place, __ATOMIC_RELAXED); }

}  // namespace

bool find_hooked(const void* address, HookedFunction* function) {
  const LoadedDriver* driver = driver_at(address);
  if (driver == nullptr) return false;
  std::uint32_t slot = row_slot(address);
  for (; driver->rows[slot] != 0; slot = (slot + 1) % LoadedDriver::kRowSlots) {
    const int row = driver->rows[slot] - 1;
    if (load(&driver->addresses[row]) != address) continue;
    function->api = static_cast<Api>(row);
    function->thunks = driver == culprit_first_driver ? 0 : driver->thunks;
    return function->thunks != 0 || driver == culprit_first_driver;
  }
  return false;
}

bool find_hooked_name(const char* symbol, Api* api) {
  const std::uint32_t hash = gnu_hash_of(symbol);
  for (int i = 0; i < kApiCount; ++i) {
    if (api_hash(static_cast<Api>(i)) == hash && std::strcmp(api_name(static_cast<Api>(i)), symbol) == 0) {
      *api = static_cast<Api>(i);
      return true;
    }
  }
  return false;
}

void* driver_address(Api api) {
  if (!driver_ready()) return nullptr;
  const LoadedDriver* driver = current_driver();
  return driver == nullptr ? nullptr : load(&driver->addresses[static_cast<int>(api)]);
}

void* find_next_address(Api api) {
  const int row = static_cast<int>(api);
  driver_ready();  // also prepares the library
  void* stand_in = stand_in_for != nullptr ? stand_in_for(api) : nullptr;
  void* found = stand_in;
  do {
    if (stand_in == nullptr) found = found_address(api);
    __atomic_store_n(&next_addresses[row], found, __ATOMIC_SEQ_CST);
    // Another thread may have set an address meanwhile.
  } while (stand_in == nullptr && found_address(api) != found);
  return found;
}

CULPRIT_LOADING void prepare_stand_ins(void* (*stand_in)(Api)) { stand_in_for = stand_in; }

void* address_behind_stand_in(Api api) {
  void* address = found_address(api);
  return address != nullptr || !driver_ready() ? address : found_address(api);
}

}  // namespace culprit
