// One place in the code may have several stacks in the dump: a line has several addresses, a library was unloaded and
// loaded again, or the frames that differ are hidden ones. Its groups become one.
#pragma once

#include <vector>

#include "report/report_model.h"

namespace culprit {

// Merges groups that a reader could not tell apart: same stack as it is shown, same evidence. Keeps the order of first
// appearance.
void merge_same_place(std::vector<Group>* groups);

}  // namespace culprit
