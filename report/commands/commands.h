// The table of the sub-commands: one row each in commands.def.
#pragma once

#include <functional>
#include <vector>

#include "report/commands/option_list.h"

namespace culprit::report {

// Carries a sub-command out with the values of its options, which it owns. Returns the exit code.
using Action = std::function<int()>;

struct Command {
  OptionList options;
  Action run;
};

// All sub-commands, in the order of the table, with their options declared.
std::vector<Command> make_commands();

// declare_run(), declare_report(), ...: declare the options of a sub-command and return its action.
#define COMMAND(name, help) Action declare_##name(OptionList* options);
#include "report/commands/commands.def"
#undef COMMAND

}  // namespace culprit::report
