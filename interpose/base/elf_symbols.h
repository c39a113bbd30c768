// Looking a symbol up in a module that is already mapped, without dlsym(): inside a hook dlsym would wait for the
// loader's lock, which another thread's dlopen constructor may hold while it waits for this very thread.
#pragma once

#include <link.h>

#include <cstdint>

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

// Describes a module of loader_modules.h. False when it has no dynamic symbols with a GNU hash.
bool describe_module(const struct dl_phdr_info& info, ElfModule* module);

// Address of a defined function or variable `name` in `module`, 0 if it defines none: of the default version where it
// has several. 0 also for what only the loader can resolve (a choice by processor, a thread-local variable).
std::uint64_t find_symbol(const ElfModule& module, const char* name);

// The same with the name's hash, for who asks many modules for many names.
constexpr std::uint32_t gnu_hash_of(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}
std::uint64_t find_symbol(const ElfModule& module, const char* name, std::uint32_t hash);

}  // namespace culprit
