// What each kind of resource is called, and whether it is memory that can leak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/format/dump_format.h"

namespace culprit {

enum class KindClass {
  kDeviceMemory,  // occupies memory of a GPU: a leak when it is never freed
  kHostMemory,    // pinned or registered memory of the host: a leak, counted apart from the GPU's
  kObject,        // streams, events, address ranges, imports: one line with totals, listed by --resources
  kNeverCounted,  // the primary context belongs to the runtime
};

// The name in reports and JSON, e.g. "stream-ordered"; "kind 77" for one that this version does not know.
std::string kind_name(format::Kind kind);

// The names of all kinds.
std::vector<std::string> kind_names();

// "events" for 18, "event" for 1: for the line that sums up hidden resources.
std::string kind_count_name(format::Kind kind, std::uint64_t count);

KindClass kind_class(format::Kind kind);

}  // namespace culprit
