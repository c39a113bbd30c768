// The live tensors inside framework caches, of all processes of a job.
#pragma once

#include <vector>

#include "report/model/cache_inside.h"

namespace culprit::report {

// Adds the caches of one process to those of the job. Tensors with the same line and the same holder become one place.
// Segments are not kept: their addresses are of one process.
void merge_caches(const std::vector<CacheInside>& from, std::vector<CacheInside>* into);

// Brings the caches of a whole job, their places and their keepers into their order, and keeps the largest of these.
// Only at the end: a place that is small in each of two parts may be large in their sum.
void limit_caches(std::vector<CacheInside>* caches);

}  // namespace culprit::report
