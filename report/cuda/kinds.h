// The name of each kind of resource, and whether it is memory that can leak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/format/dump_records.h"

namespace culprit::report {

enum class KindClass {
  kDeviceMemory,  // GPU memory: a leak when it is never freed
  kHostMemory,    // pinned or registered host memory: a leak, counted apart from GPU memory
  kObject,        // streams, events, address ranges, imports: one line with totals, listed by --resources
  kInside,        // announced regions: a leak when it is never ended; its bytes are those of other memory
  kNeverCounted,  // the primary context, which belongs to the runtime; announced heaps
};

// The name in reports and JSON, e.g. "stream-ordered"; "kind 77" for a kind unknown to this version.
std::string kind_name(format::Kind kind);

// The names of all kinds.
std::vector<std::string> kind_names();

// "events" for 18, "event" for 1: for the line that sums up hidden resources.
std::string kind_count_name(format::Kind kind, std::uint64_t count);

KindClass kind_class(format::Kind kind);

}  // namespace culprit::report
