// Scripts that complete command lines of culprit, made from the tables of options.
#pragma once

#include <string>
#include <vector>

#include "report/commands/option_list.h"

namespace culprit::report {

// The shells that have a script.
std::vector<std::string> completion_shells();

// The script for one of completion_shells(). Throws std::out_of_range for another shell.
std::string completion_script(const std::string& shell, const Usage& usage,
                              const std::vector<const OptionList*>& commands);

}  // namespace culprit::report
