// Finds the functions, inlined ones included, at an address of one compile unit.
//
// dwarf_getscopes walks the unit's tree again for every address: 15 seconds for 5,000 addresses of a big library. One
// walk that notes the address ranges of all functions answers them all in 0.2 seconds.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace culprit::report {

// The number of entries that the tables of one file may still read, together. A few bytes of DWARF can name a list of a
// hundred thousand address ranges, or a name of a megabyte, again and again; no compiler's output comes near these
// numbers.
struct DwarfLimits {
  std::int64_t entries = 64 << 20;      // visited
  std::int64_t ranges = 8 << 20;        // of addresses
  std::int64_t scope_bytes = 64 << 20;  // of qualified names of namespaces and classes
};

struct InlineScope {
  std::string function;
  bool from_linkage_name = false;  // `function` is complete: it was demangled, not composed from scopes
  bool inlined = false;
  std::string call_file;  // call site of an inlined function
  unsigned call_line = 0;
  std::uint64_t entry = 0;  // lowest address of the function; 0 when unknown
};

// Not thread-safe, like the Dwarf handle behind it.
class InlineTable {
 public:
  // Walks the unit's tree once, until the limits are reached. `limits` must outlive the constructor.
  InlineTable(Dwarf_Die unit, DwarfLimits* limits);

  // The functions at `address`, innermost first; empty when the unit has none there.
  std::vector<InlineScope> look_up(std::uint64_t address);

 private:
  struct Function {
    Dwarf_Off offset;
    bool inlined;
  };
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    std::size_t function;
  };
  static constexpr std::size_t kNoScope = static_cast<std::size_t>(-1);

  void walk(Dwarf_Die first, std::size_t depth, std::size_t scope, int level);
  void add_function(Dwarf_Die* die, bool inlined, std::size_t depth);
  std::string name_of(Dwarf_Die* die, bool* from_linkage_name) const;
  InlineScope describe(const Function& function);

  Dwarf_Die unit_;
  DwarfLimits& limits_;
  Dwarf_Files* files_ = nullptr;
  std::size_t file_count_ = 0;
  std::vector<Function> functions_;
  std::vector<std::vector<Range>> by_depth_;  // [0] functions, [1] calls inlined into them, and so on; sorted by begin
  std::vector<std::string> scopes_;           // qualified names of namespaces and classes
  std::unordered_map<Dwarf_Off, std::size_t> scope_of_;  // of functions without a linkage name
};

}  // namespace culprit::report
