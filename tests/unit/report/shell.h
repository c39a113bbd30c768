// The culprit command as a user starts it.
#pragma once

#include <string>

#include "tests/support/run_program.h"
#include "tests/support/text.h"

namespace culprit::test {

// Runs a shell command line in which CULPRIT stands for the command.
inline Finished shell(std::string line) {
  const std::string word = "CULPRIT";
  for (std::size_t at = line.find(word + " "); at != std::string::npos; at = line.find(word + " ", at + 1)) {
    line.replace(at, word.size(), CULPRIT_COMMAND);
  }
  return run_program({"/bin/sh", "-c", line}, {});
}

}  // namespace culprit::test
