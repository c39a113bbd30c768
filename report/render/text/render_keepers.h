// The keepers of a cache's live memory as a table: `culprit tensors`.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>

#include "report/model/cache_inside.h"

namespace culprit::report {

// At most `most` rows, the largest first, with what to write instead. Without a graph of objects it says so.
void render_keepers(const CacheInside& inside, std::size_t most, bool colours, std::ostream& out);

// Likewise the growth since an earlier moment, which `since` names; `before` may be an empty cache.
void render_keeper_growth(const CacheInside& before, const CacheInside& now, const std::string& since, std::size_t most,
                          bool colours, std::ostream& out);

}  // namespace culprit::report
