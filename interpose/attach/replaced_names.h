// The names whose references are replaced at an attach: the driver's functions, some of libc's, and those of the C++
// runtime that throw and catch.
#pragma once

#include <cstdint>

#include "interpose/base/elf_symbols.h"

namespace culprit {

// The real address of a symbol and our replacement. Returns false for a symbol that is not replaced, or that no module
// defines.
bool find_replacement(const char* symbol, std::uint64_t* original, std::uint64_t* ours);

// A slot by which `module` calls its C++ runtime (a process can have several): our hook must call the slot's old value.
// An unresolved slot leads back into the module; our hook then finds the function itself.
bool find_cxx_replacement(const char* symbol, const ElfModule& module, const std::uint64_t* place, std::uint64_t* ours);

// The first definition in symbol lookup order, except ours; 0 = none.
std::uint64_t first_definition(const char* symbol);

// Which symbols that a module refers to have such a name. A module has many references, and each look at a name from
// there is a cache miss: here the names of what it lacks are read one after the other, once, and those in its hash
// table (its own definitions, to which it may refer too) are looked up there. Not thread-safe.
class ReplacedNames {
 public:
  // `module` is kept.
  void look_at(const ElfModule& module);
  // Whether the symbol of this index may have one.
  bool may_be(std::uint32_t symbol) {
    if (symbol < count_) return (bits_[symbol / 64] >> (symbol % 64) & 1) != 0;
    if (hashed_ == Hashed::kNotKnown) look_at_hashed();
    return hashed_ == Hashed::kSome;
  }

 private:
  enum class Hashed : std::uint8_t { kNotKnown, kNone, kSome };
  void look_at_hashed();

  static constexpr std::uint32_t kMost = 1 << 17;
  ElfModule module_ = {};
  std::uint32_t count_ = 0;
  Hashed hashed_ = Hashed::kNotKnown;
  std::uint64_t bits_[kMost / 64] = {};
};

}  // namespace culprit
