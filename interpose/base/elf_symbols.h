// Looks up a symbol in a mapped module without dlsym(): inside a hook, dlsym would wait for the loader's lock, which
// another thread's dlopen constructor may hold while it waits for this thread.
#pragma once

#include <link.h>

#include <cstdint>
#include <cstring>

namespace culprit {

struct ElfModule {
  std::uint64_t load_bias;
  std::uint64_t begin;
  std::uint64_t end;
  const ElfW(Dyn) * dynamic;
  const ElfW(Sym) * symbols;
  const char* strings;
  const std::uint32_t* gnu_hash;
  const std::uint16_t* versions;  // nullptr = none
  const char* soname;             // nullptr = none

  bool contains(std::uint64_t address) const { return address >= begin && address < end; }
};

// Its addresses, and where its dynamic section is: what its program headers tell. Returns false without that section.
bool describe_segments(const struct dl_phdr_info& info, ElfModule* module);

// Describes a module of loader_modules.h. Returns false when it has no dynamic symbols with a GNU hash.
bool describe_module(const struct dl_phdr_info& info, ElfModule* module);

// Describes a module that the loader may not have completed yet, from a node of its list; `end` is not known then.
bool describe_node(const struct link_map& node, ElfModule* module);

// A module's relocations; an empty table when it has none.
struct Relocations {
  struct Table {
    const ElfW(Rela) * first;
    const ElfW(Rela) * last;  // behind the last entry
    const ElfW(Rela) * begin() const { return first; }
    const ElfW(Rela) * end() const { return last; }
  };
  Table calls;             // DT_JMPREL: the slots by which the module calls functions
  Table data;              // DT_RELA
  std::uint64_t relative;  // DT_RELACOUNT: so many entries at the beginning of `data` name no symbol
};
Relocations relocations_of(const ElfModule& module);

// Whether a symbol has this name. For loops over all references of a large program: nearly all symbols of C++ differ in
// their third character at the latest.
inline bool is_name(const char* name, const char* symbol) {
  if (symbol[0] != name[0] || symbol[0] == '\0' || symbol[1] != name[1] || symbol[1] == '\0') return false;
  return symbol[2] == name[2] && std::strcmp(symbol, name) == 0;
}

// Whether it is the module of this library itself.
bool is_own_module(const ElfModule& module);

// Address of the function or variable `name` that `module` defines, of its default version; 0 if none. Also 0 for
// symbols that only the loader can resolve (IFUNCs, thread-local variables).
std::uint64_t find_symbol(const ElfModule& module, const char* name);
// The size of it; 0 if there is none.
std::uint64_t symbol_bytes(const ElfModule& module, const char* name);

// With the name's hash precomputed, for looking up many names in many modules.
constexpr std::uint32_t gnu_hash_of(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}
std::uint64_t find_symbol(const ElfModule& module, const char* name, std::uint32_t hash);

// Whether `module` defines `name` for the loader, also as an IFUNC or a thread-local variable.
bool defines_symbol(const ElfModule& module, const char* name, std::uint32_t hash);

// Whether `name` is in the hash table, which lists the module's definitions and may list what it refers to.
bool hashes_symbol(const ElfModule& module, const char* name, std::uint32_t hash);

// The symbols that the hash table lists: indexes of the module's symbol table.
struct HashedSymbols {
  std::uint32_t first;
  std::uint32_t end;
};
HashedSymbols hashed_symbols_of(const ElfModule& module);

// How many symbols come before them: what the module refers to, but for functions of other modules whose addresses a
// program takes (GNU ld lists those in the hash table too, never weak references). 0 = not known: the hash table of a
// program that defines nothing is empty.
std::uint32_t symbols_before_hashed(const ElfModule& module);

}  // namespace culprit
