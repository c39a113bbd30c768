// One place in the code may have several stacks in the dump: a line has several addresses, a library was unloaded and
// loaded again, or only hidden frames differ. The groups of such stacks become one.
#pragma once

#include <string>
#include <vector>

namespace culprit::report {

struct Group;

// Merges groups that look the same to a reader: same displayed stack, same evidence. Keeps the order of first
// appearance.
void merge_same_place(std::vector<Group>* groups);

// Equal for two groups that look the same to a reader, provided that one FrameNumbers numbered their frames.
std::string merge_key(const Group& group);

}  // namespace culprit::report
