// culprit help [COMMAND]: the text of culprit [COMMAND] --help.
#include <memory>
#include <string>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/commands/commands.h"
#include "report/commands/common_options.h"

namespace culprit::report {
namespace {

int show_help(const std::string& name) {
  const std::vector<Command> commands = make_commands();
  std::vector<const OptionList*> lists;
  lists.reserve(commands.size());
  for (const Command& command : commands) lists.push_back(&command.options);
  const std::string problem = name.empty() ? "" : unknown_command(name, lists);
  if (!problem.empty()) {
    log::error(problem + "\nTry: culprit help");
    return kExitUsage;
  }
  CommonOptions ignored;
  std::vector<std::string> words = {"--help"};
  if (!name.empty()) words.insert(words.begin(), name);
  parse_arguments(program_usage("", &ignored), lists, words);
  return kExitFine;
}

}  // namespace

Action declare_help(OptionList* options) {
  const auto name = std::make_shared<std::string>();
  options->add("COMMAND", name.get(), "One of the commands; without it: all commands");
  return [name] { return show_help(*name); };
}

}  // namespace culprit::report
