// The functions that this library exports, by name and address, as the linker wrote them into its symbol table.
#pragma once

#include <cstdint>
#include <cstring>

#include "interpose/base/elf_symbols.h"

namespace culprit {

// All zeros until own_exports() was called.
struct OwnExports {
  static constexpr std::uint32_t kMost = 512;  // see bindings_*.S
  ElfModule module;
  std::uint32_t first;  // of the exports in the module's symbol table
  std::uint32_t count;
  std::uint32_t offsets[kMost];  // of the functions from the module's load bias, 0 for other symbols

  const char* name(std::uint32_t number) const { return module.strings + module.symbols[first + number].st_name; }
  std::uint64_t address(std::uint32_t number) const {
    return offsets[number] == 0 ? 0 : module.load_bias + offsets[number];
  }
};

// Reads the table when it is called first: before answer_references() changes it. Concurrent calls store equal values.
const OwnExports& own_exports();
// The module of own_exports() alone, which is found at less cost.
const ElfModule& own_symbols();

// Whether an export stands in front of a function of another module, and is not one of this library's own interface.
inline bool stands_in(const char* name) {
  if (name[0] == 'c' && name[1] == 'u' && name[2] == 'l') return std::strncmp(name, "culprit_", 8) != 0;
  return name[0] != 'I' || std::strncmp(name, "InitializeInjection", 19) != 0;
}

}  // namespace culprit
