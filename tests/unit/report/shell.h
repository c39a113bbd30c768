// The culprit command as a user starts it.
#pragma once

#include <map>
#include <string>

#include "tests/support/run_program.h"
#include "tests/support/text.h"

namespace culprit::test {

// Runs a shell command line in which CULPRIT stands for the command. Under ASan a start takes 40 % less time without
// what ASan does for leaks and with shorter stacks in its reports, and the tests start the command 2,800 times; leaks
// are looked for when the test program itself ends.
inline Finished shell(std::string line) {
#ifdef CULPRIT_ASAN
  const std::map<std::string, std::string> environment = {
      {"ASAN_OPTIONS", "detect_leaks=0:malloc_context_size=5:quarantine_size_mb=16"}};
#else
  const std::map<std::string, std::string> environment;
#endif
  const std::string word = "CULPRIT";
  for (std::size_t at = line.find(word + " "); at != std::string::npos; at = line.find(word + " ", at + 1)) {
    line.replace(at, word.size(), CULPRIT_COMMAND);
  }
  ProgramOptions options;
  options.environment = environment;
  return run_program({"/bin/sh", "-c", line}, options);
}

}  // namespace culprit::test
