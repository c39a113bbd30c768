// `culprit merge` on several processes, the ranks of a launcher: each merges its share of the dumps, and a tree over
// the ranks merges the parts.
//
//     rank 0        1        2        3        4
//          |<-------+        |<-------+        |
//          |<----------------+                 |
//          |<----------------------------------+
//
// Merging is associative, so the result has the same bytes as that of one process. Rank 0 knows whose shares the parts
// have, and reads the dumps of the missing ones itself: a rank that died costs time and loses nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/merge/load_many.h"
#include "report/ranks/launched_rank.h"
#include "report/ranks/rank_link.h"

namespace culprit::report {

// The report of all files on rank 0, as load_many() makes it; empty on the others, once their part was taken. Throws
// FileError. Warnings name the ranks that did not give their part.
std::optional<LoadedReports> merge_on_ranks(const std::vector<std::string>& paths, const LoadOptions& options,
                                            unsigned jobs, const LaunchedRank& self, RankLink* link);

// The ranks whose parts the rank takes, in this order. All ranks below one of them, up to twice the distance, pass
// their parts on through it.
std::vector<unsigned> ranks_below(unsigned rank, unsigned size);
// The rank that takes its part; 0 for rank 0.
unsigned rank_above(unsigned rank);

}  // namespace culprit::report
