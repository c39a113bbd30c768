// Which variables stand at addresses of a module's data: globals, statics of functions, members by the object around.
#pragma once

#include <elfutils/libdwfl.h>

#include "report/symbols/symbolizer.h"

namespace culprit {

// Fills `variables` and `variable_of` of `module` from the file's symbol table, for the addresses in `data`. Takes the
// table as it is: of several names at one address the global one, then the shorter one.
void look_up_variables(Dwfl_Module* file, ModuleSymbols* module);

}  // namespace culprit
