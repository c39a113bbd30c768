// The abilities of a descriptor's terminal: colours and width.
#pragma once

#include <cstddef>

namespace culprit::report {

struct Terminal {
  bool colours = false;
  std::size_t columns = 0;  // 0: no limit, the output is no terminal
};

enum class Colours { kAuto, kAlways, kNever };

// The user's choice (--color), for all later calls of wants_colours(). Not thread-safe.
void choose_colours(Colours choice);

// The user's choice; kAuto: true for a terminal that knows colours (TERM), unless the user has set NO_COLOR. Reads the
// environment, otherwise thread-safe.
bool wants_colours(int descriptor);

// The facts of `descriptor`; for a file or a pipe no limit of columns, and colours only where they are chosen. Like
// wants_colours().
Terminal terminal_of(int descriptor);

}  // namespace culprit::report
