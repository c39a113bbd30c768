// Names ways through the heap by the types of the debug information: members, elements, keys, and what containers of
// the C++ library and smart pointers lead to.
#pragma once

#include "report/symbols/data_types.h"
#include "report/symbols/local_variables.h"
#include "report/symbols/pointer_path.h"

namespace culprit::report {

// The name begins with what follows the variable: "->next->buffer", "[3]". Never fails: what cannot be named has
// `typed` false.
// `local`: the variable at path.frame; nullptr: it is not known, or the path begins in data.
PointerPathName name_of_path(const DataTypes& types, const PointerPath& path, const LocalVariable* local = nullptr);

}  // namespace culprit::report
