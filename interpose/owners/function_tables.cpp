#include "interpose/owners/function_tables.h"

#include <cstring>

#include "interpose/loader/loader_modules.h"
#include "interpose/stacks/unwind_rule.h"

namespace culprit {
namespace {

// The end of the module segment that contains `address`, 0 = none.
std::uint64_t end_of_segment(std::uint64_t address) {
  struct dl_phdr_info module;
  if (address == 0 || !find_module(address, &module)) return 0;
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = module.dlpi_phdr[i];
    std::uint64_t begin = module.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && address >= begin && address < begin + header.p_memsz) return begin + header.p_memsz;
  }
  return 0;
}

bool in_libc(std::uint64_t address) {
  struct dl_phdr_info module;
  if (!find_module(address, &module)) return false;
  const char* name = module.dlpi_name == nullptr ? nullptr : std::strrchr(module.dlpi_name, '/');
  return name != nullptr && (std::strcmp(name, "/libc.so.6") == 0 || std::strcmp(name, "/libpthread.so.0") == 0);
}

}  // namespace

bool find_function(std::uint64_t return_address, FunctionInfo* info) {
  culprit_function function;
  if (culprit_function_at(return_address - 1, &function) != 0) return false;
  *info = {function.begin, function.end, function.is_part != 0, in_libc(return_address), nullptr, nullptr};
  std::uint64_t end = end_of_segment(function.lsda);
  if (end == 0) return true;
  info->lsda = reinterpret_cast<const std::uint8_t*>(function.lsda);
  info->lsda_end = reinterpret_cast<const std::uint8_t*>(end);
  return true;
}

}  // namespace culprit
