// The symbols, lines and inlined calls of one ELF file, through elfutils' libdw.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/symbols/found_symbols.h"
#include "report/symbols/inline_table.h"

namespace culprit::report {

// One open file. Like libdw's handles it is not thread-safe: use it from one thread at a time.
class ModuleFile {
 public:
  ModuleFile();
  ~ModuleFile();
  ModuleFile(const ModuleFile&) = delete;
  ModuleFile& operator=(const ModuleFile&) = delete;

  // Opens `path`. The object is usable only after kFound. A recorded build ID must match the file's. Reads no table.
  ModuleState open(const std::string& path, const std::vector<std::uint8_t>& build_id, const SymbolOptions& options);

  // Whether a file with the debug information of this one may be on this machine.
  bool may_have_debug_file() const;

  // Reads the tables: before all that follows, but for build_id() and handle().
  void read_tables();

  // Whether the same questions to the same files would have the same answers: no limit cut them off, and no file was
  // used beside this one and debug_file().
  bool is_repeatable();

  bool has_debug_info() const { return !units_.empty(); }

  // The file with the debug information: the file itself or another one; empty without debug information.
  std::string debug_file() const;

  // Of the file, also after kChanged; in hex digits, empty without one.
  std::string build_id() const;

  // Whether the file itself defines the function that raises exceptions: see own_unwinder.h.
  bool defines_unwinder() const { return defines_unwinder_; }

  // libdwfl's handle, valid as long as this object is open.
  Dwfl_Module* handle() const { return module_; }

  // The functions at `address` (a virtual address of the file), innermost first; empty when nothing is known.
  std::vector<CodeLocation> look_up(std::uint64_t address);

  // The names of ways through the heap, one for each. Walks the debug information of the whole file.
  std::vector<PointerPathName> names_of(const std::vector<PointerPath>& paths);

 private:
  struct Symbol {
    std::uint64_t begin;
    std::uint64_t end;     // equal to begin when the symbol table has no size
    const char* name;      // belongs to libdw
    int rank;              // if several symbols share an address, the one with the lowest rank is shown
    std::uint32_t length;  // of the name, at most 4096
  };
  struct UnitRange {
    std::uint64_t begin;
    std::uint64_t end;
    std::size_t unit;
  };
  struct Unit {
    Dwarf_Die lines;  // has the line table
    Dwarf_Die code;   // has the functions: the split unit (.dwo) when there is one
    std::unique_ptr<InlineTable> inlines;
    std::optional<bool> may_read_lines;  // empty: not known yet
  };

  void read_symbols();
  void read_units();
  const Symbol* find_symbol(std::uint64_t address) const;
  Unit* find_unit(std::uint64_t address);
  bool may_read_lines(Unit* unit);
  std::vector<CodeLocation> locations_at(std::uint64_t address);

  std::string path_;
  std::string debug_path_;  // libdwfl keeps a pointer to it
  char* debug_path_pointer_ = nullptr;
  Dwfl_Callbacks callbacks_ = {};
  Dwfl* dwfl_ = nullptr;
  Dwfl_Module* module_ = nullptr;
  bool defines_unwinder_ = false;
  bool uses_other_files_ = false;
  bool was_cut_off_ = false;
  std::vector<Symbol> symbols_;         // sorted by begin
  std::vector<UnitRange> unit_ranges_;  // sorted by begin
  std::vector<Unit> units_;
  DwarfLimits limits_;
  std::optional<TimeLimit> time_;
  std::uint64_t lines_left_ = 0;  // bytes of line tables that may still be read
  std::uint64_t location_bytes_ = 0;
  std::uint64_t location_bytes_allowed_ = 64 << 20;
};

}  // namespace culprit::report
