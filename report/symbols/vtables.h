// The virtual tables of a file, by the symbols of the C++ ABI: they tell which class an object is of.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

class Vtables {
 public:
  // Reads the symbol table.
  explicit Vtables(Dwfl_Module* file);

  struct Place {
    std::string class_name;    // "layers::Convolution"; empty: no virtual table is there
    std::string mangled_name;  // "N6layers11ConvolutionE"
    std::uint64_t begin = 0;   // of the table, which has parts for the class itself and for its further bases
  };
  // Where a pointer of an object leads to. `address`: inside the file.
  Place at(std::uint64_t address) const;

  // The address that the pointer of an object of the class itself has.
  static std::uint64_t own_part(std::uint64_t begin) { return begin + kBeforeFunctions; }

 private:
  // The offset to the top, and the type_info.
  static constexpr std::uint64_t kBeforeFunctions = 16;

  struct Table {
    std::uint64_t begin;
    std::uint64_t end;
    const char* name;  // belongs to libdw
  };
  std::vector<Table> tables_;  // sorted by begin
};

}  // namespace culprit::report
