// The live tensors inside framework caches, of all processes of a job.
#pragma once

#include <vector>

#include "report/model/cache_inside.h"

namespace culprit::report {

// Adds the caches of one process to those of the job. Tensors with the same line and the same holder become one place;
// the largest places are kept, largest first. Segments are not kept: their addresses are of one process.
void merge_caches(const std::vector<CacheInside>& from, std::vector<CacheInside>* into);

}  // namespace culprit::report
