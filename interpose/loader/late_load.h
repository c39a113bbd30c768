// Whether this library was loaded at the program's start (LD_PRELOAD, linked), or into a running process: `culprit
// attach`, or a dlopen().
//
// A library that was loaded late is last in symbol lookup order: lookups do not reach its exports, and RTLD_NEXT finds
// nothing after it.
#pragma once

#include <cstdint>

struct dl_phdr_info;

namespace culprit {

// Found out at the first call. Thread-safe.
bool loaded_late();

// Whether a module is part of libc or the loader: CUDA and C++ symbols need not be looked up there.
struct ElfModule;
bool is_libc(const struct dl_phdr_info& info, const ElfModule& module);

// Address of libc's own definition of a function (before glibc 2.34: or libdl's), of its default version; 0 = none.
// Found in libc's symbol table, which avoids sanitizers' interceptors and other interposers.
std::uint64_t libc_function(const char* name);

// Whether an address lies in libc or the loader.
bool in_libc(std::uint64_t address);

// The first definition of a function after this library in lookup order: another interposer's, or libc's. 0 = none.
std::uint64_t next_definition(const char* name);

}  // namespace culprit
