#include "interpose/driver/entry_points.h"

#include <atomic>
#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/hash.h"
#include "interpose/base/late_load.h"
#include "interpose/driver/driver.h"

namespace culprit {

void* driver_addresses[kApiCount];  // libcuda's own
void* next_addresses[kApiCount];    // called by our hooks: libcuda's, another interposer's, or a stand-in

namespace {

void* found_addresses[kApiCount];  // the next addresses, without stand-ins
void* (*stand_in_for)(Api);

// libcuda's address -> row. Filled before driver_ready() returns true. No HashIndex, because threads fill it without a
// lock (see find_libcuda()).
constexpr std::uint32_t kSlots = 1024;
static_assert(kApiCount * 2 < static_cast<int>(kSlots));
struct Slot {
  std::atomic<std::uint64_t> address;
  std::atomic<Api> api;
};
Slot slots[kSlots];

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

void* find_driver_address(Api api) { return driver_ready() ? driver_addresses[static_cast<int>(api)] : nullptr; }

void* find_next_address(Api api) {
  const int row = static_cast<int>(api);
  driver_ready();  // also prepares the library
  void* stand_in = stand_in_for != nullptr ? stand_in_for(api) : nullptr;
  void* found = stand_in;
  do {
    if (stand_in == nullptr) found = __atomic_load_n(&found_addresses[row], __ATOMIC_SEQ_CST);
    if (found == nullptr) return nullptr;
    __atomic_store_n(&next_addresses[row], found, __ATOMIC_SEQ_CST);
    // Another thread may have set an address meanwhile.
  } while (stand_in == nullptr && __atomic_load_n(&found_addresses[row], __ATOMIC_SEQ_CST) != found);
  return found;
}

void set_next_address(Api api, void* address) {
  __atomic_store_n(&found_addresses[static_cast<int>(api)], address, __ATOMIC_SEQ_CST);
  // The next call looks it up.
  __atomic_store_n(&next_addresses[static_cast<int>(api)], nullptr, __ATOMIC_SEQ_CST);
}

void prepare_stand_ins(void* (*stand_in)(Api)) { stand_in_for = stand_in; }

void* address_behind_stand_in(Api api) {
  void* address = __atomic_load_n(&found_addresses[static_cast<int>(api)], __ATOMIC_RELAXED);
  if (address != nullptr || !driver_ready()) return address;
  return found_addresses[static_cast<int>(api)];
}

void find_other_interposers() {
  if (loaded_late()) return;  // we are last in lookup order
  // Runs at load, when only the program and its linked and preloaded libraries are mapped.
  bool past_us = false;
  any_module([&](const ElfModule& module, const struct dl_phdr_info& info) {
    if (is_own_module(module)) {
      past_us = true;
      return false;
    }
    if (!past_us || is_libc(info, module)) return false;
    if (is_libcuda(module)) return true;  // symbol lookup never reaches later modules
    for (int i = 0; i < kApiCount; ++i) {
      Api api = static_cast<Api>(i);
      std::uint64_t address = find_symbol(module, api_name(api), api_hash(api));
      if (address != 0 && found_addresses[i] == nullptr) found_addresses[i] = reinterpret_cast<void*>(address);
    }
    return false;
  });
}

}  // namespace culprit
