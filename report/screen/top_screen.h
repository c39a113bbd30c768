// `culprit top` on a terminal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/screen/top_state.h"

namespace culprit::report {

// Shows the screen until the user ends it. `targets`: processes and dumps; none: all processes that record. Returns the
// exit code; empty, at once: standard input or output is no terminal, or none that ncurses can use. A signal ends the
// process by that signal, after the terminal is as it was. Throws like LiveReader::check_targets(). Call it from a
// process with one thread.
std::optional<int> run_top_screen(const std::vector<std::string>& targets, double interval,
                                  const TopSettings& settings);

}  // namespace culprit::report
