#include "interpose/loader/late_load.h"

#include <atomic>
#include <cstring>
#include <initializer_list>

#include "interpose/base/placement.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/auxiliary.h"

namespace culprit {
namespace {

enum class Load : std::uint8_t { kNotKnown, kAtStart, kLate };
CULPRIT_AT_LOAD std::atomic<Load> load;

// libc's modules, kept: they are never unloaded.
constexpr int kMostParts = 4;
CULPRIT_AT_LOAD ElfModule libc_parts[kMostParts];
CULPRIT_AT_LOAD std::atomic<int> libc_part_count;

}  // namespace

// libc itself, and the libraries that were parts of it before glibc 2.34. musl's libc, which is also its loader, has no
// DT_SONAME.
bool is_libc(const struct dl_phdr_info& info, const ElfModule& module) {
  const char* name = module.soname;
  if (name == nullptr) {
    const char* slash = info.dlpi_name != nullptr ? std::strrchr(info.dlpi_name, '/') : nullptr;
    if (slash == nullptr) return false;
    name = slash + 1;
  }
  for (const char* beginning : {"libc.so", "libdl.so", "libpthread.so", "libc.musl", "ld-"}) {
    if (std::strncmp(name, beginning, std::strlen(beginning)) == 0) return true;
  }
  return false;
}

namespace {

std::uint64_t ask_libc_for_auxiliary(std::uint64_t type) {
  auto* of_libc = reinterpret_cast<unsigned long (*)(unsigned long)>(libc_function("getauxval"));
  return of_libc != nullptr ? of_libc(type) : auxiliary_from_proc(type);
}

}  // namespace

// Modules are listed in load order. Modules loaded at the program's start come before libc, which they need.
CULPRIT_LOADING bool loaded_late() {
  const Load known = load.load(std::memory_order_relaxed);
  if (CULPRIT_LIKELY(known != Load::kNotKnown)) return known == Load::kLate;
  auxiliary_of_libc.store(ask_libc_for_auxiliary, std::memory_order_relaxed);
  bool late = false;
  any_module([&](const ElfModule& module, const struct dl_phdr_info& info) {
    if (is_own_module(module)) return true;
    late = late || is_libc(info, module);
    return false;
  });
  load.store(late ? Load::kLate : Load::kAtStart, std::memory_order_relaxed);
  return late;
}

namespace {

CULPRIT_LOADING int find_libc() {
  int count = libc_part_count.load(std::memory_order_acquire);
  if (count != 0) return count;
  // Concurrent searches store equal values.
  any_module([&](const ElfModule& module, const struct dl_phdr_info& info) {
    if (is_libc(info, module)) libc_parts[count++] = module;
    return count == kMostParts;
  });
  libc_part_count.store(count, std::memory_order_release);
  return count;
}

}  // namespace

bool in_libc(std::uint64_t address) {
  const int count = find_libc();
  for (int i = 0; i < count; ++i) {
    if (libc_parts[i].contains(address)) return true;
  }
  return false;
}

CULPRIT_LOADING std::uint64_t libc_function(const char* name) {
  const int count = find_libc();
  for (int i = 0; i < count; ++i) {
    std::uint64_t address = find_symbol(libc_parts[i], name);
    if (address != 0) return address;
  }
  return 0;
}

std::uint64_t next_definition(const char* name) {
  if (loaded_late()) return libc_function(name);
  bool past_us = false;
  std::uint64_t found = 0;
  any_module([&](const ElfModule& module, const struct dl_phdr_info&) {
    if (past_us) found = find_symbol(module, name);
    past_us = past_us || is_own_module(module);
    return found != 0;
  });
  return found;
}

}  // namespace culprit
