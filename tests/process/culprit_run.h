// `culprit run` and `culprit sweep`, as a test starts them.
#pragma once

#include <string>
#include <vector>

#include "tests/support/run_preloaded.h"

namespace culprit::test {

// `culprit SUBCOMMAND OPTIONS -- SUBJECT ARGUMENTS`, with the driver that the other tests use.
inline Run culprit_command(const std::string& subcommand, const std::vector<std::string>& its_options,
                           const std::vector<std::string>& command, RunOptions options = {}) {
  std::vector<std::string> arguments = {subcommand};
  arguments.insert(arguments.end(), its_options.begin(), its_options.end());
  arguments.push_back("--");
  arguments.push_back(command[0].find('/') != std::string::npos ? command[0] : subject_path(command[0]).string());
  arguments.insert(arguments.end(), command.begin() + 1, command.end());
  options.preload = false;
  options.environment["CULPRIT_LIBRARY"] = library_path().string();
  options.environment["CULPRIT_OUT"] = "";
  options.environment["NO_COLOR"] = "1";
  return run_preloaded(culprit_path().string(), arguments, options);
}

inline Run culprit_run(const std::vector<std::string>& run_options, const std::vector<std::string>& command,
                       const RunOptions& options = {}) {
  return culprit_command("run", run_options, command, options);
}

}  // namespace culprit::test
