// The condition under which a failed allocation would have fit.
#pragma once

namespace culprit::report {

struct OutOfMemory;

// Sets `rule` and `would_fit`, from the other fields: the first rule of would_fit.def that applies.
void choose_rule(OutOfMemory* failure);

}  // namespace culprit::report
