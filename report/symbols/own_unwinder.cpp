#include "report/symbols/own_unwinder.h"

#include <gelf.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace culprit::report {
namespace {

// libstdc++, vterminate.cc; libc++abi, cxa_default_handlers.cpp, has it without "after throwing".
constexpr char kMessage[] = "terminate called after throwing an instance of '";

// In larger sections of constants (tables, kernels) the search would cost more than its result is worth.
constexpr std::uint64_t kLargestSection = 64ULL << 20;

// Of all sections together, which may overlap.
constexpr std::uint64_t kMostSearched = 1ULL << 30;

bool contains_message(Elf_Scn* section) {
  const Elf_Data* data = elf_rawdata(section, nullptr);
  if (data == nullptr || data->d_buf == nullptr) return false;
  return ::memmem(data->d_buf, data->d_size, kMessage, sizeof(kMessage) - 1) != nullptr;
}

bool imports_runtime(Dwfl_Module* file) {
  const int count = dwfl_module_getsymtab(file);
  for (int i = 1; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    GElf_Word section = 0;
    const char* name = dwfl_module_getsym_info(file, i, &symbol, &address, &section, nullptr, nullptr);
    if (name == nullptr || section != SHN_UNDEF) continue;
    // The name may be followed by its version.
    for (const char* import : {"__cxa_throw", "_Unwind_RaiseException"}) {
      const std::size_t length = std::strlen(import);
      if (std::strncmp(name, import, length) == 0 && (name[length] == '\0' || name[length] == '@')) return true;
    }
  }
  return false;
}

}  // namespace

bool has_hidden_cxx_runtime(Dwfl_Module* file) {
  GElf_Addr bias = 0;
  Elf* elf = dwfl_module_getelf(file, &bias);
  if (elf == nullptr) return false;
  bool message = false;
  std::uint64_t searched = 0;
  for (const bool looking : {false, true}) {
    for (Elf_Scn* section = nullptr; !message && (section = elf_nextscn(elf, section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr) continue;
      if (header.sh_type == SHT_SYMTAB) return false;
      const bool constant = header.sh_type == SHT_PROGBITS && (header.sh_flags & SHF_ALLOC) != 0 &&
                            (header.sh_flags & (SHF_WRITE | SHF_EXECINSTR)) == 0;
      if (!looking || !constant || header.sh_size > kLargestSection) continue;
      searched += header.sh_size;
      if (searched > kMostSearched) return false;
      message = contains_message(section);
    }
  }
  return message && !imports_runtime(file);
}

}  // namespace culprit::report
