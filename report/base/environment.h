// Environment variables. One that is set to nothing counts as not set.
#pragma once

#include <cstdlib>
#include <string>

namespace culprit::report {

inline bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && value[0] != '\0';
}

inline std::string value_or(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] != '\0' ? value : otherwise;
}

}  // namespace culprit::report
