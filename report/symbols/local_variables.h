// The variable at a place of a function's frame.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <string>

#include "report/symbols/inline_table.h"
#include "report/symbols/pointer_path.h"
#include "report/symbols/time_limit.h"

namespace culprit::report {

struct LocalVariable {
  std::string name;
  std::string function;
  Dwarf_Die type;
  std::uint64_t offset = 0;  // of the place in the variable
  bool in_block = false;     // of the function, perhaps the body of a loop
};

// Looks in the function of the compile unit `unit` that runs at place.address for a variable that lies at that place of
// its frame, and whose scope also has place.call: the outermost such scope. Parameters are none: they have copies.
// False if there is none, or the frame is not described by one rule. `module`: of the same file, for its unwind
// information.
bool find_local_variable(Dwfl_Module* module, Dwarf_Die unit, const FramePlace& place, DwarfLimits* limits,
                         TimeLimit* time, LocalVariable* found);

}  // namespace culprit::report
