#include "interpose/attach/replaced_names.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "interpose/causes/cxx_runtime.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/entry_points.h"
#include "interpose/hooks/hooks.h"
#include "interpose/loader/late_load.h"
#include "interpose/loader/loader_modules.h"

namespace culprit {
namespace {

// Functions of libc that a preloaded library interposes.
struct OfLibc {
  const char* name;
  void* ours;
};
const OfLibc kOfLibc[] = {
    {"dlsym", reinterpret_cast<void*>(&dlsym)},
    {"dlclose", reinterpret_cast<void*>(&dlclose)},
    {"_exit", reinterpret_cast<void*>(&_exit)},
    {"_Exit", reinterpret_cast<void*>(&_Exit)},
    {"quick_exit", reinterpret_cast<void*>(&quick_exit)},
    {"pthread_exit", reinterpret_cast<void*>(&pthread_exit)},
    {"pthread_cancel", reinterpret_cast<void*>(&pthread_cancel)},
};

bool is_of_libc(const char* symbol) {
  return std::any_of(std::begin(kOfLibc), std::end(kOfLibc),
                     [&](const OfLibc& function) { return is_name(function.name, symbol); });
}

bool starts_like_driver(const char* symbol) { return symbol[0] == 'c' && symbol[1] == 'u'; }

bool is_replaced(const char* symbol) {
  Api api;
  CxxFunction function;
  void* hook = nullptr;
  if (starts_like_driver(symbol)) return find_hooked_name(symbol, &api);
  return is_of_libc(symbol) || (symbol[0] == '_' && find_cxx_hook(symbol, &function, &hook));
}

}  // namespace

bool find_replacement(const char* symbol, std::uint64_t* original, std::uint64_t* ours) {
  *original = 0;
  Api api;
  if (starts_like_driver(symbol) && find_hooked_name(symbol, &api)) {
    *original = reinterpret_cast<std::uint64_t>(driver_address(api));
    *ours = reinterpret_cast<std::uint64_t>(hook_address(api));
    return *original != 0;
  }
  for (const OfLibc& function : kOfLibc) {
    if (!is_name(function.name, symbol)) continue;
    *original = libc_function(symbol);
    *ours = reinterpret_cast<std::uint64_t>(function.ours);
    return *original != 0;
  }
  return false;
}

// A slot by which `module` calls its C++ runtime (a process can have several): our hook must call the slot's old value.
// An unresolved slot leads back into the module; our hook then finds the function itself.
bool find_cxx_replacement(const char* symbol, const ElfModule& module, const std::uint64_t* place,
                          std::uint64_t* ours) {
  CxxFunction function;
  void* hook = nullptr;
  if (symbol[0] != '_' || !find_cxx_hook(symbol, &function, &hook)) return false;
  const std::uint64_t found = *place;
  *ours = reinterpret_cast<std::uint64_t>(hook);
  if (found == 0 || found == *ours) return false;
  if (!module.contains(found) || found == find_symbol(module, symbol))
    remember_binding(function, module.begin, module.end, reinterpret_cast<void*>(found));
  return true;
}

// The first definition in symbol lookup order, except ours; 0 = none.
std::uint64_t first_definition(const char* symbol) {
  std::uint64_t address = 0;
  any_module([&](const ElfModule& module, const struct dl_phdr_info&) {
    if (!is_own_module(module)) address = find_symbol(module, symbol);
    return address != 0;
  });
  return address;
}

void ReplacedNames::look_at(const ElfModule& module) {
  module_ = module;
  const std::uint32_t lacking = symbols_before_hashed(module);
  count_ = std::min(lacking, kMost);
  hashed_ = lacking == 0 || lacking > kMost ? Hashed::kSome : Hashed::kNotKnown;
  std::memset(bits_, 0, (count_ + 63) / 64 * sizeof(bits_[0]));
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (is_replaced(module.strings + module.symbols[i].st_name)) bits_[i / 64] |= std::uint64_t{1} << (i % 64);
  }
}

void ReplacedNames::look_at_hashed() {
  const auto hashes = [&](const char* name) { return hashes_symbol(module_, name, gnu_hash_of(name)); };
  bool some = false;
  for (int i = 0; i < kApiCount && !some; ++i) {
    const Api api = static_cast<Api>(i);
    some = hashes_symbol(module_, api_name(api), api_hash(api));
  }
  for (int i = 0; i < static_cast<int>(CxxFunction::kGetGlobals) && !some; ++i)
    some = hashes(cxx_name(static_cast<CxxFunction>(i)));
  for (const OfLibc& function : kOfLibc) some = some || hashes(function.name);
  hashed_ = some ? Hashed::kSome : Hashed::kNone;
}

}  // namespace culprit
