// Detects programs that contain their own C++ runtime (-static-libstdc++ -static-libgcc). Their throws call no function
// that a preloaded library can interpose, so their exceptions are not recorded.
#pragma once

#include <elfutils/libdwfl.h>

namespace culprit::report {

// For a file without a symbol table, where the function that raises exceptions has no name: whether the file contains a
// C++ runtime (recognised by its message for uncaught exceptions) and imports none. False for files with a symbol
// table.
bool has_hidden_cxx_runtime(Dwfl_Module* file);

}  // namespace culprit::report
