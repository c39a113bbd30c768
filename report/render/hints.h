// One line for each leak that says what to change.
#pragma once

#include <string>

#include "report/model/report_model.h"

namespace culprit {

// The hint for a judged group, from what is known of it; "" where nothing useful can be said. `running`: the process
// has not ended, so that what nobody freed may still be freed.
std::string hint_for(const Group& group, bool running);

}  // namespace culprit
