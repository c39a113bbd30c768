// Whether what is written to a descriptor is coloured.
#pragma once

namespace culprit::report {

// True for a terminal that knows colours (TERM), unless the user has set NO_COLOR. Reads the environment, otherwise
// thread-safe.
bool wants_colours(int descriptor);

}  // namespace culprit::report
