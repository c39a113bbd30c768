// Text that tests look at.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "tests/catch.h"

namespace culprit::test {

// Whether `text` contains `part`, for conditions.
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Whether `text` contains `part`, for assertions: a CHECK of the result that fails prints the whole text.
inline bool has(const std::string& text, const std::string& part) {
  const bool found = contains(text, part);
  if (!found) UNSCOPED_INFO("\"" << part << "\" is not in:\n" << text);
  return found;
}

// The content of a file, also of one under /proc; "" when it cannot be read. It does not throw when a file of /proc
// fails in the middle because its process ended, as an istreambuf_iterator would.
inline std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace culprit::test
