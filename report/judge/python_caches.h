// The inside of the caches of Python's frameworks, from the view of the frameworks (load/python_view.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/dump/tables.h"
#include "report/load/python_view.h"
#include "report/model/cache_inside.h"

namespace culprit::report {

class StackOwners;
class StackResolver;

// The live part of each caching allocator's segments that were made in `range`. Segments are matched by the
// addresses that are both in the view and in the dump, or belong to a pool by their stack, which `stacks` has
// resolved.
std::vector<CacheInside> look_inside_caches(const PythonView& view, const Dump& dump, const TimeRange& range,
                                            const StackResolver& stacks, StackOwners* owners);

// The caches at the moment of the view: all segments, as when memory ran out; then the memory of Python's objects that
// lies in no cache.
std::vector<CacheInside> look_inside_view(const PythonView& view);

// Whether the framework of this pool tells of its cache from inside Python.
bool tells_from_inside(const std::string& pool);

// The caches at the last moment at which memory ran out: all segments, since they may have been freed. Empty when the
// view has none. `device`: of one device, with the reasons why idle memory did not serve the request for `asked_bytes`
// of the driver.
std::vector<CacheInside> look_inside_ran_out(const PythonView& view);
std::vector<CacheInside> look_inside_ran_out(const PythonView& view, unsigned device, std::uint64_t asked_bytes);

}  // namespace culprit::report
