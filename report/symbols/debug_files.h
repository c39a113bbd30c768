// Which files with debug information libdw may open. A program file names others (a debug file, a split unit), so an
// untrusted program chooses them: a FIFO would block libdw for ever, and a compressed section may claim to be a
// thousand times its size.
#pragma once

#include <elfutils/libdwfl.h>

namespace culprit::report {

// For Dwfl_Callbacks::find_debuginfo: dwfl_standard_find_debuginfo, without what must not be opened. The module's user
// data must be the search path (Dwfl_Callbacks::debuginfo_path).
int find_debug_file(Dwfl_Module* module, void** user_data, const char* name, Dwarf_Addr base, const char* file_name,
                    const char* link_file, GElf_Word link_crc, char** debug_file_name);

// Whether the sections of the file that are compressed stay within what a compiler's would be.
bool expands_moderately(Elf* elf);

// Whether libdw may look for the split unit (.dwo) of a skeleton unit.
bool split_unit_may_be_opened(Dwfl_Module* module, Dwarf_Die* skeleton);

}  // namespace culprit::report
