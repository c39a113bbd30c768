// The locks of the loader in another process.
#pragma once

#include <sys/types.h>

#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

// The loader's writable memory, which contains its locks.
std::vector<MappedRange> loader_data(const std::vector<MappedRange>& mappings);

// Whether the thread owns one of the locks. Also true when that cannot be known.
bool owns_loader_lock(const TracedProcess& process, const std::vector<MappedRange>& data, pid_t thread);

}  // namespace culprit::report
