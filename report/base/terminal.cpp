#include "report/base/terminal.h"
#include "report/base/environment.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace culprit::report {

namespace {

Colours chosen = Colours::kAuto;

}  // namespace

void choose_colours(Colours choice) { chosen = choice; }

bool wants_colours(int descriptor) {
  if (chosen != Colours::kAuto) return chosen == Colours::kAlways;
  if (is_set("NO_COLOR")) return false;
  const char* terminal = std::getenv("TERM");
  if (terminal == nullptr || std::string_view(terminal) == "dumb") return false;
  return ::isatty(descriptor) == 1;
}

Terminal terminal_of(int descriptor) {
  Terminal terminal;
  terminal.colours = wants_colours(descriptor);
  if (::isatty(descriptor) != 1) return terminal;
  winsize size = {};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0) terminal.columns = size.ws_col;
  return terminal;
}

}  // namespace culprit::report
