// A problem with a file that a user wrote or named.
#pragma once

#include <stdexcept>

namespace culprit::report {

// The message names the file and, where known, the line.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace culprit::report
