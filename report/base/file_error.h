// What is wrong with a file that a person wrote or named.
#pragma once

#include <stdexcept>

namespace culprit {

// The message names the file, and the line where there is one.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace culprit
