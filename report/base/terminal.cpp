#include "report/base/terminal_colours.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace culprit::report {

bool wants_colours(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && no_colour[0] != '\0') return false;
  const char* terminal = std::getenv("TERM");
  if (terminal == nullptr || std::string_view(terminal) == "dumb") return false;
  return ::isatty(descriptor) == 1;
}

}  // namespace culprit::report
