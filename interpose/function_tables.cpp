// What the unwind tables of the running process say of a function. Takes the loader's read lock (dl_iterate_phdr),
// never the one that dlopen's constructors run under.
#include <link.h>

#include <cstring>

#include "interpose/abandoned.h"
#include "interpose/unwind_rule.h"

namespace culprit {
namespace {

struct Segment {
  std::uint64_t address;
  std::uint64_t end;
};

int visit_for_segment(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* segment = static_cast<Segment*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    std::uint64_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type != PT_LOAD || segment->address < begin || segment->address >= begin + header.p_memsz) continue;
    segment->end = begin + header.p_memsz;
    return 1;
  }
  return 0;
}

struct Startup {
  std::uint64_t address;
  bool found;
};

int visit_for_libc(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* startup = static_cast<Startup*>(data);
  const char* name = info->dlpi_name == nullptr ? nullptr : std::strrchr(info->dlpi_name, '/');
  if (name == nullptr || (std::strcmp(name, "/libc.so.6") != 0 && std::strcmp(name, "/libpthread.so.0") != 0)) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    std::uint64_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && startup->address >= begin && startup->address < begin + header.p_memsz)
      startup->found = true;
  }
  return startup->found;
}

}  // namespace

bool find_function(std::uint64_t return_address, FunctionInfo* info) {
  culprit_function function;
  if (culprit_function_at(return_address - 1, &function) != 0) return false;
  Startup startup = {return_address, false};
  dl_iterate_phdr(visit_for_libc, &startup);
  *info = {function.begin, function.end, function.is_part != 0, startup.found, nullptr, nullptr};
  Segment segment = {function.lsda, 0};
  if (function.lsda != 0) dl_iterate_phdr(visit_for_segment, &segment);
  if (segment.end == 0) return true;
  info->lsda = reinterpret_cast<const std::uint8_t*>(segment.address);
  info->lsda_end = reinterpret_cast<const std::uint8_t*>(segment.end);
  return true;
}

}  // namespace culprit
