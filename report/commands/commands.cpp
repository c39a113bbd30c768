#include "report/commands/commands.h"

#include <utility>

#include "report/commands/option_groups.h"

namespace culprit::report {

std::vector<Command> make_commands() {
  std::vector<Command> commands;
  const auto add = [&](const char* name, const char* help, Action (*declare)(OptionList*)) {
    OptionList options(name, help);
    Action run = declare(&options);
    group_options(&options);
    commands.push_back({std::move(options), std::move(run)});
  };
#define COMMAND(name, help) add(#name, help, declare_##name);
#include "report/commands/commands.def"
#undef COMMAND
  return commands;
}

}  // namespace culprit::report
