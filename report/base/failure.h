// The message for an exception that ends a command, also for one without words of its own, such as a lack of memory.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "report/base/printable.h"

namespace culprit::report {

// One line for a reader. Thread-safe.
inline std::string failure_text(const std::exception& error) {
  // A container that would be larger than any memory is std::length_error.
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const std::length_error*>(&error) != nullptr)
    return "more memory is needed than there is (see ulimit -v)";
  return printable_lines(error.what());
}

}  // namespace culprit::report
