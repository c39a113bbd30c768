// Makes calls fail as CULPRIT_FAIL asks (fail_rules.h). Without it nothing is in the way: when it is set, stubs are put
// between all hooks and what they call.
#pragma once

namespace culprit {

// Looks at CULPRIT_FAIL. Call once, at load.
void prepare_failures();

}  // namespace culprit
