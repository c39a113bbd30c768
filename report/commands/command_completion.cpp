// culprit completion SHELL: for `source <(culprit completion bash)`, and for packages, which install the three scripts.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/commands/commands.h"
#include "report/commands/common_options.h"
#include "report/commands/completion.h"

namespace culprit::report {

Action declare_completion(OptionList* options) {
  const auto shell = std::make_shared<std::string>();
  options->add("SHELL", shell.get(), "bash, zsh or fish").one_of(completion_shells()).is_required();
  return [shell] {
    const std::vector<Command> commands = make_commands();
    std::vector<const OptionList*> lists;
    lists.reserve(commands.size());
    for (const Command& command : commands) lists.push_back(&command.options);
    CommonOptions ignored;
    std::cout << completion_script(*shell, program_usage("", &ignored), lists);
    return kExitFine;
  };
}

}  // namespace culprit::report
