#include "interpose/driver/entry_points.h"

#include <atomic>
#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/hash.h"
#include "interpose/base/late_load.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/own_module.h"
#include "interpose/driver/driver.h"

namespace culprit {

void* driver_addresses[kApiCount];  // libcuda's own
void* next_addresses[kApiCount];    // called by our hooks: libcuda's, or another interposer's

namespace {

void* addresses_behind[kApiCount];  // the next address behind a stand-in
void** found_addresses = next_addresses;

// libcuda's address -> row. Filled before driver_ready() returns true.
constexpr std::uint32_t kSlots = 1024;
static_assert(kApiCount * 2 < static_cast<int>(kSlots));
struct Slot {
  std::atomic<std::uint64_t> address;
  std::atomic<Api> api;
};
Slot slots[kSlots];

// Finds another preloaded library that defines CUDA functions and comes after us: our hooks must call its functions.
// Runs at load, when only the program and its linked and preloaded libraries are mapped.
int visit_for_interposers(struct dl_phdr_info* info, std::size_t, void* past_us) {
  ElfModule module;
  if (!describe_module(*info, &module)) return 0;
  if (module.contains(reinterpret_cast<std::uint64_t>(__ehdr_start))) {
    *static_cast<bool*>(past_us) = true;
    return 0;
  }
  if (!*static_cast<bool*>(past_us) || is_libc(*info, module)) return 0;
  if (is_libcuda(module)) return 1;  // symbol lookup never reaches later modules
  for (int i = 0; i < kApiCount; ++i) {
    Api api = static_cast<Api>(i);
    std::uint64_t address = find_symbol(module, api_name(api), api_hash(api));
    if (address != 0 && found_addresses[i] == nullptr) found_addresses[i] = reinterpret_cast<void*>(address);
  }
  return 0;
}

}  // namespace

void learn_entry_points(const ElfModule& libcuda) {
  for (int i = 0; i < kApiCount; ++i) {
    Api api = static_cast<Api>(i);
    std::uint64_t address = find_symbol(libcuda, api_name(api), api_hash(api));
    driver_addresses[i] = reinterpret_cast<void*>(address);
    if (found_addresses[i] == nullptr) found_addresses[i] = driver_addresses[i];
    if (address == 0) continue;
    std::uint32_t slot = static_cast<std::uint32_t>(mix(address)) % kSlots;
    std::uint64_t present = 0;
    while (!slots[slot].address.compare_exchange_strong(present, address) && present != address) {
      slot = (slot + 1) % kSlots;
      present = 0;
    }
    slots[slot].api.store(api, std::memory_order_relaxed);
  }
}

bool find_hooked(const void* address, Api* api) {
  if (!driver_ready()) return false;
  std::uint64_t wanted = reinterpret_cast<std::uint64_t>(address);
  for (std::uint32_t slot = static_cast<std::uint32_t>(mix(wanted)) % kSlots; slots[slot].address != 0;
       slot = (slot + 1) % kSlots) {
    if (slots[slot].address == wanted) {
      *api = slots[slot].api;
      return true;
    }
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

void* find_address(void* const* addresses, Api api) {
  return driver_ready() ? addresses[static_cast<int>(api)] : nullptr;
}

void set_next_address(Api api, void* address) {
  __atomic_store_n(&found_addresses[static_cast<int>(api)], address, __ATOMIC_RELAXED);
}

void put_in_front(void* (*stand_in)(Api)) {
  for (int i = 0; i < kApiCount; ++i) {
    addresses_behind[i] = next_addresses[i];
    next_addresses[i] = stand_in(static_cast<Api>(i));
  }
  found_addresses = addresses_behind;
}

void* address_behind_stand_in(Api api) {
  void* address = __atomic_load_n(&addresses_behind[static_cast<int>(api)], __ATOMIC_RELAXED);
  if (address != nullptr || !driver_ready()) return address;
  return addresses_behind[static_cast<int>(api)];
}

void find_other_interposers() {
  if (loaded_late()) return;  // we are last in lookup order
  bool past_us = false;
  visit_modules(visit_for_interposers, &past_us);
}

}  // namespace culprit
