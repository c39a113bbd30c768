// The culprit command as a user starts it.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "tests/catch.h"

namespace culprit::test {

struct Finished {
  int exit_code = -1;
  int signal = 0;
  std::string output;
};

// Runs a shell command line in which CULPRIT stands for the command.
inline Finished shell(std::string line) {
  const std::string word = "CULPRIT";
  for (std::size_t at = line.find(word + " "); at != std::string::npos; at = line.find(word + " ", at + 1)) {
    line.replace(at, word.size(), CULPRIT_COMMAND);
  }
  Finished finished;
  FILE* pipe = ::popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    finished.output.append(buffer, got);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) finished.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) finished.signal = WTERMSIG(status);
  return finished;
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace culprit::test
