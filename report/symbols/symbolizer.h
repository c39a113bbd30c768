// Addresses inside ELF files -> functions, source lines and inlined calls.
//
// Works on one module at a time: all addresses of the module are looked up in one sorted symbol table and in one table
// of inlined calls for each compile unit involved (module_symbols.h). libdw, asked about a single address, walks whole
// tables for each of them.
#pragma once

#include <functional>
#include <vector>

#include "report/symbols/found_symbols.h"

namespace culprit::report {

// How the report builder gets symbols: fills in the results of all modules. Tests replace it.
using SymbolLookup = std::function<void(std::vector<ModuleSymbols>& modules)>;

// Looks up symbols on this machine, several modules at a time. Never throws for a bad file: see ModuleSymbols::state.
// Thread-safe.
void look_up_symbols(std::vector<ModuleSymbols>& modules, const SymbolOptions& options);

}  // namespace culprit::report
