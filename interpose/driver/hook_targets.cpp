#include "interpose/driver/hook_targets.h"

#include "interpose/base/elf_symbols.h"
#include "interpose/base/late_load.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/placement.h"
#include "interpose/driver/driver_calls.h"

extern "C" {
CULPRIT_OWN extern const char culprit_dispatch[];
}

namespace culprit {

void* next_addresses[kApiCount];

namespace {

// dispatch_x86_64.S: one stub for each row.
constexpr int kDispatchBytes = 16;
constexpr int kDispatchStubs = 384;
static_assert(kApiCount <= kDispatchStubs);

void* of_interposers[kApiCount];   // other interposers' functions
void* found_addresses[kApiCount];  // the next addresses, without stand-ins

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

void* found_address(Api api) { return __atomic_load_n(&found_addresses[static_cast<int>(api)], __ATOMIC_SEQ_CST); }

void connect_hooks(void* const* first, bool others) {
  for (int i = 0; i < kApiCount; ++i) {
    void* address = load(&of_interposers[i]);
    if (address == nullptr && others) address = dispatch_stub(i);
    if (address == nullptr && first != nullptr) address = load(&first[i]);
    set_found_address(i, address);
  }
}

void set_next_address(Api api, void* address) {
  __atomic_store_n(&of_interposers[static_cast<int>(api)], address, __ATOMIC_RELAXED);
  set_found_address(static_cast<int>(api), address);
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
