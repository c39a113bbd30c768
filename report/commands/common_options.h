// The texts of the whole program, and the options of every sub-command.
#pragma once

#include <string>

#include "report/base/log.h"
#include "report/base/terminal.h"
#include "report/commands/option_list.h"

namespace culprit::report {

struct CommonOptions {
  unsigned verbose = 0;
  bool quiet = false;
  std::string color = "auto";

  log::Level level() const;
  Colours colours() const;
};

// The usage of the program, whose options set `options`; `version`: the line of --version.
Usage program_usage(const std::string& version, CommonOptions* options);

}  // namespace culprit::report
