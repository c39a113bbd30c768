// The headings under which `culprit COMMAND --help` lists options, where a command has more than fit a screen.
#pragma once

#include "report/commands/option_list.h"

namespace culprit::report {

// Gives each option of a long list its heading; other lists stay as they are.
void group_options(OptionList* options);

}  // namespace culprit::report
