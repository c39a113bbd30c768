#include "interpose/system/auxiliary.h"

#include <elf.h>
#include <link.h>

#include "interpose/base/placement.h"
#include "interpose/system/own_files.h"

namespace culprit {

CULPRIT_AT_LOAD std::atomic<std::uint64_t (*)(std::uint64_t)> auxiliary_of_libc;

std::uint64_t auxiliary_value(std::uint64_t type) {
  auto* of_libc = auxiliary_of_libc.load(std::memory_order_relaxed);
  return of_libc != nullptr ? of_libc(type) : auxiliary_from_proc(type);
}

std::uint64_t auxiliary_from_proc(std::uint64_t type) {
  ElfW(auxv_t) entries[48];
  std::size_t bytes = read_own_file("auxv", reinterpret_cast<char*>(entries), sizeof(entries));
  for (std::size_t i = 0; (i + 1) * sizeof(entries[0]) <= bytes; ++i) {
    if (entries[i].a_type == type) return entries[i].a_un.a_val;
  }
  return 0;
}

}  // namespace culprit
