// Reads the output of the subjects `routes` and `runtime_kinds` and compares it with a report: the loop that the tests
// of all routes share.
#pragma once

#include <string>
#include <vector>

#include "tests/support/run_preloaded.h"

namespace culprit::test {

// The expected content of a report for one row of a subject.
struct ExpectedKind {
  const char* row;   // name of the row; its function is make_<row>
  const char* kind;  // in the report
  const char* api;   // the call that made it, without version suffix
};

// Checks a run of SUBJECT with "leak": each row is in the report exactly once, through its function, with its kind,
// call and bytes. Rows that the driver does not support are tolerated on a GPU (with a WARN), never on the simulated
// driver.
void check_leaked_rows(const Run& run, const std::vector<ExpectedKind>& expected);

// Checks a run with "free": no row leaks, and there are no errors.
void check_freed_rows(const Run& run, const std::vector<ExpectedKind>& expected);

}  // namespace culprit::test
