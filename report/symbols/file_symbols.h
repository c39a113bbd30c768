// A walk over the symbol table of a file.
#pragma once

#include <elfutils/libdwfl.h>
#include <gelf.h>

#include <cstdint>

namespace culprit::report {

struct FileSymbol {
  const char* name;  // not empty; belongs to libdw
  GElf_Sym entry;
  std::uint64_t address;  // inside the file; of a thread-local variable not meant
  bool defined;           // by this file
};

// Calls visit(symbol) for each symbol that has a name.
template <typename Visit>
void for_each_symbol(Dwfl_Module* file, Visit visit) {
  const int count = dwfl_module_getsymtab(file);
  for (int i = 1; i < count; ++i) {
    FileSymbol symbol = {};
    GElf_Addr address = 0;
    GElf_Word section = 0;
    symbol.name = dwfl_module_getsym_info(file, i, &symbol.entry, &address, &section, nullptr, nullptr);
    if (symbol.name == nullptr || symbol.name[0] == '\0') continue;
    symbol.address = address;
    symbol.defined = section != SHN_UNDEF;
    visit(symbol);
  }
}

}  // namespace culprit::report
