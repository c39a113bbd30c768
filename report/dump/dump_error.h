// Why a dump cannot be read.
#pragma once

#include <stdexcept>
#include <string>

#include "report/base/printable.h"

namespace culprit::report {

enum class DumpProblem { kCannotOpen, kNotADump, kTruncated, kOtherVersion, kByteOrder, kDamaged };

// Thrown by Dump::open and Dump::from_bytes. what() names the file, the problem and the remedy.
class DumpError : public std::runtime_error {
 public:
  DumpError(DumpProblem kind, const std::string& message)
      : std::runtime_error(printable_lines(message)), problem(kind) {}
  DumpProblem problem;
};

}  // namespace culprit::report
