// Finds libcuda and the real functions, once, in libcuda's own symbol table.
#include "interpose/driver/driver.h"

#include <atomic>
#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/hash.h"
#include "interpose/base/late_load.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/own_module.h"
#include "interpose/base/own_stack.h"
#include "interpose/driver/api.h"
#include "interpose/driver/redirect.h"

namespace culprit {

void* driver_addresses[kApiCount];  // libcuda's own
void* next_addresses[kApiCount];    // called by our hooks: libcuda's, or another interposer's

namespace {

Driver calls;
ElfModule libcuda;
std::atomic<int> found;

void* addresses_behind[kApiCount];  // the next address behind a stand-in
void** found_addresses = next_addresses;

// libcuda's address -> row. Filled once, before `found` is set.
constexpr std::uint32_t kSlots = 1024;
static_assert(kApiCount * 2 < static_cast<int>(kSlots));
struct Slot {
  std::atomic<std::uint64_t> address;
  std::atomic<Api> api;
};
Slot slots[kSlots];

bool is_libcuda(const ElfModule& module) {
  return module.soname != nullptr && std::strcmp(module.soname, "libcuda.so.1") == 0 &&
         find_symbol(module, "cuInit") != 0;
}

int visit_for_libcuda(struct dl_phdr_info* info, std::size_t, void* result) {
  ElfModule module;
  if (!describe_module(*info, &module) || !is_libcuda(module)) return 0;
  *static_cast<ElfModule*>(result) = module;
  return 1;
}

void resolve() {
#define CULPRIT_RESOLVE(name) calls.name = reinterpret_cast<decltype(calls.name)>(find_symbol(libcuda, #name));
  CULPRIT_DRIVER_CALLS(CULPRIT_RESOLVE)
#undef CULPRIT_RESOLVE
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

// Without a lock, because a fork child could find it locked for ever: concurrent threads store equal values, and each
// thread stores all of them before it continues.
bool find_libcuda() {
  ElfModule module;
  if (visit_modules(visit_for_libcuda, &module) == 0) return false;
  libcuda = module;
  resolve();
  found.store(1, std::memory_order_release);
  return true;
}

}  // namespace

const Driver& driver() { return calls; }

bool driver_ready() {
  if (found.load(std::memory_order_acquire) != 0) return true;
  return on_own_stack([] { return find_libcuda(); });
}

bool in_driver(const void* address) {
  return driver_ready() && libcuda.contains(reinterpret_cast<std::uint64_t>(address));
}

bool driver_range(std::uint64_t* begin, std::uint64_t* end) {
  if (!driver_ready()) return false;
  *begin = libcuda.begin;
  *end = libcuda.end;
  return true;
}

bool is_driver_handle(const void* handle) {
  // glibc's handles are its link_map pointers; l_addr is the load bias (link.h).
  return driver_ready() && handle != nullptr && handle != reinterpret_cast<void*>(-1) &&
         static_cast<const struct link_map*>(handle)->l_addr == libcuda.load_bias;
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

namespace {

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

int visit_for_cuda(struct dl_phdr_info* info, std::size_t, void*) {
  const char* path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  const char* slash = std::strrchr(path, '/');
  const char* name = slash != nullptr ? slash + 1 : path;
  return std::strncmp(name, "libcuda.so", 10) == 0 || std::strncmp(name, "libcudart", 9) == 0;
}

}  // namespace

bool cuda_is_loaded() { return visit_modules(visit_for_cuda, nullptr) != 0; }

void find_other_interposers() {
  if (loaded_late()) return;  // we are last in lookup order
  bool past_us = false;
  visit_modules(visit_for_interposers, &past_us);
}

}  // namespace culprit
