// One line for each leak that suggests a fix.
#pragma once

#include <string>

namespace culprit::report {

struct Group;

// The hint for a judged group; "" if there is nothing useful to say. `running`: the process still runs, so unfreed
// memory may still be freed.
std::string hint_for(const Group& group, bool running);

}  // namespace culprit::report
