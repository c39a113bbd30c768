// The options that choose which leaks are shown and counted.
#pragma once

#include <string>

#include "report/commands/output_options.h"
#include "report/select/selection.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace culprit::report {

// Declares the options on `command`, including those that limit how much is shown. `output`: needed because --fail-on
// new requires a baseline.
void add_selection_options(CLI::App* command, SelectionOptions* options, OutputOptions* output);

// Declares --allow-growth, with a value for parse_growth(); `help` is the beginning of its help text.
CLI::Option* add_growth_option(CLI::App* command, std::string* value, const std::string& help);

}  // namespace culprit::report
