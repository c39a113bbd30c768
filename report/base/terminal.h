// What a descriptor's terminal can show.
#pragma once

#include <cstddef>

namespace culprit::report {

struct Terminal {
  bool colours = false;
  std::size_t columns = 0;  // 0: no limit, the output is no terminal
};

// True for a terminal that knows colours (TERM), unless the user has set NO_COLOR. Reads the environment, otherwise
// thread-safe.
bool wants_colours(int descriptor);

// The facts of `descriptor`; those of no terminal for a file or a pipe. Like wants_colours().
Terminal terminal_of(int descriptor);

}  // namespace culprit::report
