// The keepers of a cache's live memory as a table: `culprit tensors`.
#pragma once

#include <cstddef>
#include <ostream>

#include "report/model/cache_inside.h"

namespace culprit::report {

// At most `most` rows, the largest first, with what to write instead. Without a graph of objects it says so.
void render_keepers(const CacheInside& inside, std::size_t most, bool colours, std::ostream& out);

}  // namespace culprit::report
