#include "report/symbols/own_unwinder.h"

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "report/symbols/file_symbols.h"

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
  bool imports = false;
  for_each_symbol(file, [&](const FileSymbol& symbol) {
    if (symbol.defined) return;
    // The name may be followed by its version.
    for (const char* import : {"__cxa_throw", "_Unwind_RaiseException"}) {
      const std::size_t length = std::strlen(import);
      const char next = std::strncmp(symbol.name, import, length) == 0 ? symbol.name[length] : 'x';
      imports = imports || next == '\0' || next == '@';
    }
  });
  return imports;
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
