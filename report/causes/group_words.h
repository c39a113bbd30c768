// Sentences about a group that several formats share.
#pragma once

#include <string>

namespace culprit::report {

struct Group;

// "freed in 97 of 100 calls; the 3 that leaked all left through std::runtime_error thrown at f.cpp:33". "" when no
// call's memory was freed.
std::string history_text(const Group& group);

// One line that suggests a fix; "" if there is nothing useful to say. `may_be_freed`: as in MemoryWords, so unfreed
// memory may still be freed.
std::string hint_for(const Group& group, bool may_be_freed);

}  // namespace culprit::report
