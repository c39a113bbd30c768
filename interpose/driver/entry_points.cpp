#include "interpose/driver/entry_points.h"

#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/late_load.h"
#include "interpose/base/placement.h"
#include "interpose/driver/driver.h"

extern "C" {
CULPRIT_OWN extern const char culprit_dispatch[];
}

namespace culprit {

void* next_addresses[kApiCount];  // a stand-in, or as found; nullptr: to be looked up at the next call

namespace {

// dispatch_x86_64.S: one stub for each row.
constexpr int kDispatchBytes = 16;
constexpr int kDispatchStubs = 384;
static_assert(kApiCount <= kDispatchStubs);
static_assert(offsetof(LoadedDriver, addresses) == 0);

void* of_interposers[kApiCount];   // other interposers' functions
void* found_addresses[kApiCount];  // the next addresses, without stand-ins
CULPRIT_AT_LOAD void* (*stand_in_for)(Api);

constexpr int kMostInterposers = 8;
std::uint64_t interposers[kMostInterposers];  // where their modules begin
int interposer_count;

void* load(void* const* place) { return __atomic_load_n(place, __ATOMIC_RELAXED); }

void set_found_address(int row, void* address) {
  __atomic_store_n(&found_addresses[row], address, __ATOMIC_SEQ_CST);
  // The next call looks it up.
  __atomic_store_n(&next_addresses[row], nullptr, __ATOMIC_SEQ_CST);
}

void* dispatch_stub(int row) { return const_cast<char*>(culprit_dispatch) + kDispatchBytes * row; }

}  // namespace

void connect_hooks(const LoadedDriver* first, bool others) {
  for (int i = 0; i < kApiCount; ++i) {
    void* address = load(&of_interposers[i]);
    if (address == nullptr && others) address = dispatch_stub(i);
    if (address == nullptr && first != nullptr) address = load(&first->addresses[i]);
    set_found_address(i, address);
  }
}

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
  for (int i = 0; i < kApiCount; ++i) {
    if (std::strcmp(api_name(static_cast<Api>(i)), symbol) == 0) {
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
    if (stand_in == nullptr) found = __atomic_load_n(&found_addresses[row], __ATOMIC_SEQ_CST);
    __atomic_store_n(&next_addresses[row], found, __ATOMIC_SEQ_CST);
    // Another thread may have set an address meanwhile.
  } while (stand_in == nullptr && __atomic_load_n(&found_addresses[row], __ATOMIC_SEQ_CST) != found);
  return found;
}

void set_next_address(Api api, void* address) {
  __atomic_store_n(&of_interposers[static_cast<int>(api)], address, __ATOMIC_RELAXED);
  set_found_address(static_cast<int>(api), address);
}

CULPRIT_LOADING void prepare_stand_ins(void* (*stand_in)(Api)) { stand_in_for = stand_in; }

void* address_behind_stand_in(Api api) {
  void* address = __atomic_load_n(&found_addresses[static_cast<int>(api)], __ATOMIC_RELAXED);
  if (address != nullptr || !driver_ready()) return address;
  return found_addresses[static_cast<int>(api)];
}

CULPRIT_LOADING void find_other_interposers() {
  if (loaded_late()) return;  // we are last in lookup order
  // Runs at load, when only the program and its linked and preloaded libraries are mapped.
  bool past_us = false;
  any_module([&](const ElfModule& module, const struct dl_phdr_info& info) {
    if (is_own_module(module)) {
      past_us = true;
      return false;
    }
    if (!past_us || is_libc(info, module)) return false;
    if (is_libcuda(module, info.dlpi_name)) return true;  // symbol lookup never reaches later modules
    bool any = false;
    for (int i = 0; i < kApiCount; ++i) {
      Api api = static_cast<Api>(i);
      std::uint64_t address = find_symbol(module, api_name(api), api_hash(api));
      if (address != 0 && of_interposers[i] == nullptr) set_next_address(api, reinterpret_cast<void*>(address));
      any = any || address != 0;
    }
    if (any && interposer_count < kMostInterposers) interposers[interposer_count++] = module.begin;
    return false;
  });
}

bool is_other_interposer(const ElfModule& module) {
  for (int i = 0; i < interposer_count; ++i) {
    if (interposers[i] == module.begin) return true;
  }
  return false;
}

}  // namespace culprit
