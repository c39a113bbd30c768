// The memory of Python: objects that hold allocations, and the inside of the frameworks' caches, from the view of the
// frameworks (load/python_view.h).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "report/dump/tables.h"
#include "report/load/python_view.h"
#include "report/model/cache_inside.h"
#include "report/model/frames.h"

namespace culprit::report {

class StackOwners;
class StackResolver;

// Adds the Python objects that hold memory to `tables`, as if they were globals. Memory of caching allocators is left
// out: `owners` tells it of the stacks, which `stacks` has resolved. `variables` receives the holders and must outlive
// the tables.
void add_python_holders(const PythonView& view, const Dump& dump, const StackResolver& stacks, StackOwners* owners,
                        Tables* tables, std::deque<Variable>* variables);

// The live part of each caching allocator's segments that were made in `range`. Segments are matched by the
// addresses that are both in the view and in the dump.
std::vector<CacheInside> look_inside_caches(const PythonView& view, const Dump& dump, const TimeRange& range);

// The caches at the moment of the view: all segments, as when memory ran out.
std::vector<CacheInside> look_inside_view(const PythonView& view);

// Whether the framework of this pool tells of its cache from inside Python.
bool tells_from_inside(const std::string& pool);

// The caches at the last moment at which memory ran out: all segments, since they may have been freed. Empty when the
// view has none. `device`: of one device, with the reasons why idle memory did not serve the request for `asked_bytes`
// of the driver.
std::vector<CacheInside> look_inside_ran_out(const PythonView& view);
std::vector<CacheInside> look_inside_ran_out(const PythonView& view, unsigned device, std::uint64_t asked_bytes);

}  // namespace culprit::report
