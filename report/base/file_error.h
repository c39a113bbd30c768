// A problem with a file that a user wrote or named.
#pragma once

#include <stdexcept>
#include <string>

#include "report/base/printable.h"

namespace culprit::report {

// The message names the file and, where known, the line. It is made printable, because both may come from an untrusted
// file.
class FileError : public std::runtime_error {
 public:
  explicit FileError(const std::string& message) : std::runtime_error(printable_lines(message)) {}
};

}  // namespace culprit::report
