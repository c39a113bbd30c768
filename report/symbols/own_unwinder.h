// Programs with a C++ runtime of their own inside (-static-libstdc++ -static-libgcc): they throw without calling any
// function that a preloaded library could stand in front of, so that their exceptions were not seen.
#pragma once

#include <elfutils/libdwfl.h>

namespace culprit {

// For a file without a symbol table, where the function that raises exceptions has no name: whether it has a C++
// runtime inside, which shows by its message for uncaught exceptions, and imports none. False for other files.
bool has_hidden_cxx_runtime(Dwfl_Module* file);

}  // namespace culprit
