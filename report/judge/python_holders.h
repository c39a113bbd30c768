// The objects of Python that hold allocations, from the view of the frameworks (load/python_view.h).
#pragma once

#include <deque>

#include "report/dump/dump_reader.h"
#include "report/dump/tables.h"
#include "report/model/frames.h"

namespace culprit::report {

class StackOwners;
class StackResolver;
struct PythonView;

// Adds the Python objects that hold memory to `tables`, as if they were globals. Memory of caching allocators is left
// out: `owners` tells it of the stacks, which `stacks` has resolved. `variables` receives the holders and must outlive
// the tables.
void add_python_holders(const PythonView& view, const Dump& dump, const StackResolver& stacks, StackOwners* owners,
                        Tables* tables, std::deque<Variable>* variables);

}  // namespace culprit::report
