// Addresses inside ELF files -> functions, source lines and inlined calls.
//
// The work is done a module at a time: all addresses of one module are looked up against one sorted symbol table and
// one table of inlined calls for each touched compile unit (module_symbols.h). Asking libdw about each address by
// itself walks whole tables for every question.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace culprit {

// One function that an address stands in. With inlining an address has several, innermost first.
struct CodeLocation {
  std::string function;  // empty: no symbol at or before the address
  std::string file;      // empty: no line information
  unsigned line = 0;
  bool inlined = false;      // this function was inlined into the next one
  bool approximate = false;  // `function` is only the nearest symbol before the address, which lies outside of it
  std::uint64_t symbol_offset = 0;  // address minus start of the function; 0 for inlined ones
};

// A variable of a module's data.
struct DataSymbol {
  std::string name;  // demangled: "g_cache", "f()::instance"
  std::uint64_t begin = 0;
};

enum class ModuleState {
  kFound,
  kNoFile,      // there is no file at the path any more
  kChanged,     // the file's build ID is another one: its symbols would be wrong
  kUnreadable,  // not an ELF file, no permission
};

// A question about one module, and its answer.
struct ModuleSymbols {
  std::string path;
  std::vector<std::uint8_t> build_id;    // empty: not recorded, the file on disk is believed
  std::vector<std::uint64_t> addresses;  // virtual addresses inside the file
  std::vector<std::uint64_t> data;       // the same, of data: which variables are there?

  ModuleState state = ModuleState::kNoFile;
  bool has_debug_info = false;
  bool own_unwinder = false;  // what it throws cannot be observed: it has a C++ runtime of its own inside
  std::vector<std::vector<CodeLocation>> locations;  // one entry for each address; empty entries when nothing is known
  std::vector<DataSymbol> variables;                 // different ones
  std::vector<std::uint32_t> variable_of;  // one entry for each of `data`: index of a variable, or kNoVariable
  static constexpr std::uint32_t kNoVariable = 0xffffffff;
};

struct SymbolOptions {
  std::string sysroot;                                    // put in front of every path
  std::vector<std::string> debug_dirs;                    // searched for separate debug files before /usr/lib/debug
  unsigned threads = 0;                                   // 0: as many as there are processors
  std::function<void(const std::string& path)> progress;  // called before a module is read, from any thread
};

// What the report builder asks for symbols: fills the answers of all modules. Tests put their own in its place.
using SymbolLookup = std::function<void(std::vector<ModuleSymbols>& modules)>;

// Looks the modules up on this machine, several at once. Never throws for a bad file: see ModuleSymbols::state.
// Thread-safe.
void look_up_symbols(std::vector<ModuleSymbols>& modules, const SymbolOptions& options);

}  // namespace culprit
