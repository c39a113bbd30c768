// Makes calls fail according to CULPRIT_FAIL (fail_rules.h). Only if it is set, stubs are put between all hooks and the
// functions that they call.
#pragma once

namespace culprit {

// Reads CULPRIT_FAIL. Call once, at load.
void prepare_failures();

}  // namespace culprit
