// The options that choose which leaks are shown and counted.
#pragma once

#include <string>

#include "report/commands/option_list.h"
#include "report/commands/output_options.h"
#include "report/select/selection.h"

namespace culprit::report {

// Declares the options in `list`, including those that limit how much is shown. `output`: needed because --fail-on
// new requires a baseline.
void add_selection_options(OptionList* list, SelectionOptions* options, OutputOptions* output);

// False, with a message on stderr, when all processes used GPUs, and none of those that --devices names.
bool has_devices(const std::vector<Report>& reports, const SelectionOptions& options);

// Declares --id.
void add_id_option(OptionList* list, SelectionOptions* options);

// False, with a message on stderr that names ids: --id names no leak or resource of the reports. Else `output` shows
// the list that it is in.
bool has_id(const std::vector<Report>& reports, const SelectionOptions& options, OutputOptions* output);

// Declares --allow-growth, with a value for parse_growth(); `help` is the beginning of its help text.
Option& add_growth_option(OptionList* list, std::string* value, const std::string& help);

}  // namespace culprit::report
