#include "interpose/late_load.h"

#include <cstring>

#include "interpose/elf_symbols.h"
#include "interpose/own_module.h"

namespace culprit {
namespace {

bool late = false;

bool is_libc(const ElfModule& module) {
  return module.soname != nullptr &&
         (std::strncmp(module.soname, "libc.so", 7) == 0 || std::strncmp(module.soname, "libdl.so", 8) == 0);
}

// Modules are listed in the order in which they came. What a program starts with stands before libc, which it needs.
int visit_for_order(struct dl_phdr_info* info, std::size_t, void*) {
  ElfModule module;
  if (!describe_module(*info, &module)) return 0;
  if (module.contains(reinterpret_cast<std::uint64_t>(__ehdr_start))) return 1;
  late = late || is_libc(module);
  return 0;
}

struct Search {
  const char* name;
  std::uint64_t found;
};
int visit_for_function(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  ElfModule module;
  if (!describe_module(*info, &module) || !is_libc(module)) return 0;
  search->found = find_symbol(module, search->name);
  return search->found != 0;
}

}  // namespace

void find_out_when_loaded() { dl_iterate_phdr(visit_for_order, nullptr); }

bool loaded_late() { return late; }

std::uint64_t libc_function(const char* name) {
  Search search = {name, 0};
  dl_iterate_phdr(visit_for_function, &search);
  return search.found;
}

}  // namespace culprit
