// Finds the variables at addresses of a module's data: globals, function statics, thread-local variables (at addresses
// with format::kHolderThreadLocal); a member is reported as its object.
#pragma once

#include <elfutils/libdwfl.h>

#include "report/symbols/found_symbols.h"

namespace culprit::report {

// Fills `variables` and `variable_of` of `module` from the file's symbol table, for the addresses in `data`. If several
// names share an address, a global one is preferred, then the shorter one.
void look_up_variables(Dwfl_Module* file, ModuleSymbols* module);

}  // namespace culprit::report
