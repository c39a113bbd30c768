// Makes calls fail according to CULPRIT_FAIL (fail_rules.h). Only if it is set at the first call, stubs are put between
// all hooks and the functions that they call.
#pragma once

namespace culprit {

// Call once, at load.
void prepare_failures();

}  // namespace culprit
