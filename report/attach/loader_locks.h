// The locks of the loader in another process.
#pragma once

#include <link.h>
#include <sys/types.h>

#include <optional>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

// The first mapping of the loader, which may have any name; null: it has none.
const MappedRange* find_loader(const TracedProcess& process, const std::vector<MappedRange>& mappings);

// The loader's writable memory, which contains its locks.
std::vector<MappedRange> loader_data(const TracedProcess& process, const std::vector<MappedRange>& mappings);

// Whether the thread owns one of the locks. Also true when that cannot be known.
bool owns_loader_lock(const TracedProcess& process, const std::vector<MappedRange>& data, pid_t thread);

// The state that the loader has for debuggers; empty when it cannot be read.
std::optional<r_debug> loader_state(const TracedProcess& process, const std::vector<MappedRange>& mappings);

// Whether the loader is in the middle of changing its list of libraries (the same state). A child that was forked then
// stays there for ever, and a dlopen() in it ends it.
bool is_loader_at_work(const TracedProcess& process, const std::vector<MappedRange>& mappings);

}  // namespace culprit::report
