// Whether this library was there from the program's start (LD_PRELOAD, linked), or came into a process that was
// running: `culprit attach`, or a dlopen().
//
// What came late stands behind everything in the order in which symbols are looked up. Nobody meets its exports by
// himself, and "the next one behind us" is nobody.
#pragma once

#include <cstdint>

struct dl_phdr_info;

namespace culprit {

// Call first of all at load.
void find_out_when_loaded();

bool loaded_late();

// Whether a module is libc's or the loader's: nobody has to look there for what is no part of C.
struct ElfModule;
bool is_libc(const struct dl_phdr_info& info, const ElfModule& module);

// Address of a function that libc defines (before glibc 2.34: or libdl), whoever else does, of its default version; 0 =
// none. Found in libc's own symbol table, so that it is neither a sanitizer's interceptor nor another interposer's.
std::uint64_t libc_function(const char* name);

// The first definition of a function in the order of look-up behind this library: another interposer's, or libc's.
// 0 = none.
std::uint64_t next_definition(const char* name);

}  // namespace culprit
