// How large the line table of a unit is before libdw unfolds it.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>

namespace culprit::report {

// The bytes of the unit's line program in .debug_line or, of a split unit, .debug_line.dwo; 0 when it has none.
std::uint64_t line_table_bytes(Dwarf_Die* unit);

}  // namespace culprit::report
