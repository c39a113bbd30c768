// DWARF 4 sections written by hand, in the proportions of GCC's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct DwarfFunction {
  std::string name;
  std::string linkage_name;
};

struct DwarfUnit {
  std::string name;
  std::uint64_t code = 0;  // address of the first function; the others follow
  std::vector<DwarfFunction> functions;
};

class DwarfSections {
 public:
  DwarfSections();
  // Each function has inlined calls at bytes 64 to 192, one inside of it at 96 to 128, and a line every 8 bytes.
  void add_unit(const DwarfUnit& unit, std::uint64_t function_bytes);
  static std::string abbreviations();

  std::string info, lines, strings;

 private:
  // Places in `info` that later entries of the same unit refer to, from the unit's begin.
  struct Places {
    std::size_t start;
    std::uint32_t int_type, float_type;
    std::vector<std::uint32_t> abstracts, declarations;
  };

  std::uint32_t add_string(const std::string& text);
  void begin_unit(const DwarfUnit& unit, std::uint64_t function_bytes, Places* places);
  void add_namespace(const DwarfUnit& unit, Places* places);
  void add_definition(const Places& places, std::size_t number, std::uint64_t code, std::uint64_t function_bytes);
  void add_lines(const DwarfUnit& unit, std::uint64_t function_bytes);

  std::uint32_t producer_, folder_, int_, float_, pointer_, member_, parameter_, size_;
};

}  // namespace bench
