// Whether the DWARF of an ELF file is of an extent that libdw can hold: a kilobyte for each unit, however short, and
// for each unit its own copy of the abbreviations that it uses, which all units may share.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <string>

namespace culprit::report {

// Why libdw must not read the DWARF; "" when it may. Compressed sections must have been found moderate before, and are
// expanded in `elf`.
std::string problem_of_dwarf(Elf* elf, std::uint64_t file_bytes);

}  // namespace culprit::report
