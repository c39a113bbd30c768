// The addresses that are looked up in a module, and the symbols that were found for them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/symbols/module_state.h"
#include "report/symbols/pointer_path.h"

namespace culprit::report {

// One function at an address. With inlining an address has several, innermost first.
struct CodeLocation {
  std::string function;  // empty: no symbol at or before the address
  std::string file;      // empty: no line information
  unsigned line = 0;
  bool inlined = false;      // this function was inlined into the next one
  bool approximate = false;  // `function` is only the nearest symbol before the address, which lies outside of it
  std::uint64_t symbol_offset = 0;  // address minus start of the function; 0 for inlined ones
  std::string symbol;  // the function by the symbol table, where the debug information has another name for it
};

// A variable of a module's data.
struct DataSymbol {
  std::string name;  // demangled: "g_cache", "f()::instance"
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

// Addresses in one module, and the symbols found for them.
struct ModuleSymbols {
  std::string path;
  std::vector<std::uint8_t> build_id;    // empty: not recorded, the file on disk is trusted
  std::vector<std::uint64_t> addresses;  // virtual addresses inside the file
  std::vector<std::uint64_t> data;       // likewise addresses inside the file, of variables
  std::vector<PointerPath> paths;        // that begin in variables

  ModuleState state = ModuleState::kNoFile;
  bool has_debug_info = false;
  bool own_unwinder = false;  // has its own C++ runtime inside, so its exceptions are not recorded
  std::vector<std::vector<CodeLocation>> locations;  // one entry for each address; empty entries when nothing is known
  std::vector<DataSymbol> variables;                 // distinct
  std::vector<std::uint32_t> variable_of;  // one entry for each of `data`: index of a variable, or kNoVariable
  static constexpr std::uint32_t kNoVariable = 0xffffffff;
  std::vector<PointerPathName> path_names;  // one entry for each of `paths`
};

struct SymbolOptions {
  std::string sysroot;                                    // prefix of every path
  std::vector<std::string> debug_dirs;                    // searched for separate debug files before /usr/lib/debug
  unsigned threads = 0;                                   // 0: as many as there are processors
  std::function<void(const std::string& what)> progress;  // called with the current step, from any thread
  // How long debug information may be downloaded from the servers of DEBUGINFOD_URLS, all files together; 0: not at
  // all.
  unsigned download_seconds = 30;
  std::string cache_folder;  // see symbol_cache.h; "" = no cache
};

}  // namespace culprit::report
