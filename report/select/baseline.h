// A baseline: the leaks that are known and put up with, as a file that people read, comment and keep under version
// control. A night's report is compared with it, so that only what is new or has grown fails.
//
//     {"schema": "culprit.baseline/1",
//      "comment": "text that is kept",
//      "leaks": [
//       {"id": "16 hex digits", "bytes": 4096, "count": 1, "kind": "device", "cause": "never-freed", "api":
//       "cudaMalloc",
//        "where": "Solver::step in train", "comment": "text that is kept"}, ...]}
//
// One line a leak, in the order of the ids, without lines and addresses: a change of the program changes few of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/base/byte_size.h"
#include "report/base/file_error.h"
#include "report/model/report_model.h"

namespace culprit {

struct BaselineLeak {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::string kind;
  std::string cause;
  std::string api;
  std::string where;
  std::string comment;
};

struct Baseline {
  std::string comment;
  std::map<std::string, BaselineLeak> leaks;  // by id
};

// "Solver::step in train": without the line, which changes with every edit above it. nullptr: not known.
std::string place_without_line(const Frame* frame);

// Reads the file at `path`. Throws FileError when it cannot be read or is no baseline.
Baseline read_baseline(const std::string& path);

// The leaks of the reports. Those of several processes that have one id are one, with the sum of their bytes. Cached
// memory is among them only when `strict`.
Baseline baseline_of(const std::vector<Report>& reports, bool strict);

// Writes `baseline` to `path`; the comments that a baseline there has are kept. Throws FileError when it cannot be
// written, or when something else is there, which stays as it is.
void write_baseline(const std::string& path, Baseline baseline);

// Says in each leak of the reports how it compares with `baseline`, and in each report how many are new, grown and
// known; the last report names those that are gone. `path` is shown.
void compare(const Baseline& baseline, const std::string& path, const Growth& allowed, bool strict,
             std::vector<Report>* reports);

// "new", "grown", "known": the names in the JSON report.
const char* comparison_name(Comparison comparison);

}  // namespace culprit
