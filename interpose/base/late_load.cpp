#include "interpose/base/late_load.h"

#include <atomic>
#include <cstring>
#include <initializer_list>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/own_module.h"

namespace culprit {
namespace {

bool late = false;

// Modules are listed in load order. Modules loaded at the program's start come before libc, which they need.
int visit_for_order(struct dl_phdr_info* info, std::size_t, void*) {
  ElfModule module;
  if (!describe_module(*info, &module)) return 0;
  if (module.contains(reinterpret_cast<std::uint64_t>(__ehdr_start))) return 1;
  late = late || is_libc(*info, module);
  return 0;
}

// libc's modules, kept: they are never unloaded.
constexpr int kMostParts = 4;
ElfModule libc_parts[kMostParts];
std::atomic<int> libc_part_count;

int visit_for_libc(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* count = static_cast<int*>(data);
  ElfModule module;
  if (describe_module(*info, &module) && is_libc(*info, module)) libc_parts[(*count)++] = module;
  return *count == kMostParts;
}

struct Search {
  const char* name;
  bool past_us;
  std::uint64_t found;
};
int visit_for_next(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  ElfModule module;
  if (!describe_module(*info, &module)) return 0;
  if (module.contains(reinterpret_cast<std::uint64_t>(__ehdr_start))) {
    search->past_us = true;
    return 0;
  }
  if (search->past_us) search->found = find_symbol(module, search->name);
  return search->found != 0;
}

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

void find_out_when_loaded() { visit_modules(visit_for_order, nullptr); }

bool loaded_late() { return late; }

std::uint64_t libc_function(const char* name) {
  int count = libc_part_count.load(std::memory_order_acquire);
  if (count == 0) {
    // Concurrent searches store equal values.
    visit_modules(visit_for_libc, &count);
    libc_part_count.store(count, std::memory_order_release);
  }
  for (int i = 0; i < count; ++i) {
    std::uint64_t address = find_symbol(libc_parts[i], name);
    if (address != 0) return address;
  }
  return 0;
}

std::uint64_t next_definition(const char* name) {
  if (late) return libc_function(name);
  Search search = {name, false, 0};
  visit_modules(visit_for_next, &search);
  return search.found;
}

}  // namespace culprit
