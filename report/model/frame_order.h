// An order of frames and stacks by their content, so that a choice between two of them is the same in every run: their
// addresses in memory differ, and so does the order in which threads and machines read the dumps of a job.
#pragma once

#include "report/model/frames.h"

namespace culprit::report {

// Lower offsets first; stacks with equal offsets by everything else that they show. nullptr comes last. Neither of two
// equal stacks comes before the other.
bool precedes(const ResolvedStack* left, const ResolvedStack* right);
bool precedes(const Frame* left, const Frame* right);

// The one that comes first.
template <typename Thing>
const Thing* earlier(const Thing* left, const Thing* right) {
  return precedes(right, left) ? right : left;
}

}  // namespace culprit::report
