// Which files with debug information libdw may open. A program file names others (a debug file, a split unit), so a
// stranger's program chooses them: a FIFO would block libdw for ever, and elf_limits.h says what else a file may do.
#pragma once

#include <elfutils/libdwfl.h>

#include <string>

namespace culprit::report {

// For Dwfl_Callbacks::find_debuginfo: dwfl_standard_find_debuginfo, without what must not be opened. The module's user
// data must be the search path (Dwfl_Callbacks::debuginfo_path).
int find_debug_file(Dwfl_Module* module, void** user_data, const char* name, Dwarf_Addr base, const char* file_name,
                    const char* link_file, GElf_Word link_crc, char** debug_file_name);

// Whether a file lies where find_debug_file() would look for the one of `module`, whose path is `program`. Servers are
// not asked.
bool debug_file_may_be_there(Dwfl_Module* module, const std::string& program, const std::string& search_path);

// Whether libdw may look for the file with the debug information that this one shares with others
// (.gnu_debugaltlink): it does when a name is asked of it.
bool shared_file_may_be_opened(Dwfl_Module* module, Dwarf* dwarf);

// Whether libdw may look for the split unit (.dwo) of a skeleton unit.
bool split_unit_may_be_opened(Dwfl_Module* module, Dwarf_Die* skeleton);

}  // namespace culprit::report
