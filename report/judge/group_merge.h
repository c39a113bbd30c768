// One place in the code may have several stacks in the dump: a line has several addresses, a library was unloaded and
// loaded again, or the frames that differ are hidden ones. Its groups become one.
#pragma once

#include <string>
#include <vector>

#include "report/model/report_model.h"

namespace culprit {

// Merges groups that a reader could not tell apart: same stack as it is shown, same evidence. Keeps the order of first
// appearance.
void merge_same_place(std::vector<Group>* groups);

// Equal for two groups that a reader could not tell apart, as far as their frames have numbers of one FrameNumbers.
std::string merge_key(const Group& group);

}  // namespace culprit
