// The variables of a module's data, and the types that its compile units complete, found by one walk over its DWARF;
// and its virtual tables.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/symbols/inline_table.h"
#include "report/symbols/time_limit.h"
#include "report/symbols/vtables.h"

namespace culprit::report {

// Not thread-safe, like the Dwarf handle behind it, which must outlive it.
class DataTypes {
 public:
  // Walks the units, until the limits are reached.
  // `file`: has the symbols.
  DataTypes(const std::vector<Dwarf_Die>& units, Dwfl_Module* file, DwarfLimits* limits, TimeLimit* time);

  // The type of the variable at `address`, and the offset in it; false if none is known.
  bool type_at(std::uint64_t address, Dwarf_Die* type, std::uint64_t* offset) const;

  // The object of a class that only the code of its std::function knows.
  struct Functor {
    Dwarf_Die type;
    bool inside;  // the std::function has it inside of itself
  };

  // libstdc++: where its manager or its invoker is the code at `address`. libc++: where the virtual table of the object
  // around the functor is there. False if it is not known.
  bool functor_at(std::uint64_t address, Functor* functor) const;

  // The virtual tables of the file, read at the first call.
  const Vtables& vtables() const;

  // The complete class of this qualified name; false if no unit of the module has it.
  bool class_named(const std::string& name, Dwarf_Die* type) const;

  // The complete type instead of a declaration (`struct Engine;`); false if no unit of the module has it.
  bool complete(Dwarf_Die* type) const;

 private:
  struct DataVariable {
    std::uint64_t address;
    Dwarf_Die die;
  };

  void walk(Dwarf_Die first, const std::string& scope, int level);
  void add_variable(Dwarf_Die* die);
  void add_type(Dwarf_Die* die, const std::string& name);
  void add_function(Dwarf_Die* die);
  void add_handler(Dwarf_Die* die);
  void add_holder(Dwarf_Die* die);
  bool is_inside(Dwarf_Die handler) const;

  Dwfl_Module* file_;
  DwarfLimits& limits_;
  TimeLimit& time_;
  std::vector<DataVariable> variables_;                    // sorted by address
  std::unordered_map<std::string, Dwarf_Die> types_;       // by qualified name
  std::unordered_map<std::uint64_t, Dwarf_Off> managers_;  // of std::function, by address: their declarations ...
  std::unordered_map<Dwarf_Off, Dwarf_Die> handlers_;      // ... and the classes of these
  std::vector<std::pair<std::string, Dwarf_Die>>
      holders_;                                          // of libc++'s, by the linkage name of one of their functions
  std::unordered_map<Dwarf_Off, std::string> declared_;  // the qualified names of declarations, by their offset
  mutable std::optional<Vtables> vtables_;
};

// Whether a type has members.
bool is_class(int tag);

// The type that an entry has, without typedef, const, volatile and atomic. False if it has none (void).
bool type_of(Dwarf_Die* die, Dwarf_Die* type);

// The type that a template parameter of this name stands for; nullptr: the first one. False: there is none.
bool template_parameter(Dwarf_Die* type, const char* name, Dwarf_Die* found);

// The number of elements in each dimension of an array; 0 = not known.
std::vector<std::uint64_t> counts_of(Dwarf_Die array);

// The size of a type in bytes, 0 = not known.
std::uint64_t size_of(Dwarf_Die* type);

// An attribute that is a constant, `otherwise` if it is absent.
std::uint64_t constant_of(Dwarf_Die* die, unsigned attribute, std::uint64_t otherwise);

// The name of an entry, cut where it is longer than any identifier; "" if it has none.
std::string name_of(Dwarf_Die* die);

}  // namespace culprit::report
