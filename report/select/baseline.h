// A baseline: known and accepted leaks, in a file that people read, comment and keep under version control. A nightly
// run compares its report with the baseline and fails only on new or grown leaks.
//
//     {"schema": "culprit.baseline/1",
//      "comment": "text that is kept",
//      "leaks": [
//       {"id": "16 hex digits", "bytes": 4096, "count": 1, "kind": "device", "cause": "never-freed", "api":
//       "cudaMalloc",
//        "where": "Solver::step in train", "id_rule": 2, "comment": "text that is kept"}, ...],
//      "keepers": [
//       {"id": "16 hex digits", "bytes": 4096, "kind": "variable", "path": "`trainer.losses`, a list"}, ...]}
//
// `keepers` (of the live memory in caches, keepers/) is there when a process had such caches.
//
// An entry without "id_rule" is of a culprit that made ids by another rule; renewed() finds its leak.
//
// One line per leak, sorted by id, without line numbers and addresses, so that an edit of the program changes few
// lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/base/byte_size.h"
#include "report/base/file_error.h"
#include "report/model/keeper.h"
#include "report/select/baseline_leaks.h"

namespace culprit::report {

enum class Comparison;
struct Frame;
struct Report;
struct ResolvedStack;

struct Baseline {
  std::string comment;
  BaselineLeaks leaks;
  std::vector<Keeper> keepers;  // of live memory; sorted by id
  bool knows_keepers = false;   // also when there are none
};

// "Solver::step in train", "step in train.py": without the line number, which changes with every edit above it.
// nullptr: not known.
std::string place_without_line(const Frame* frame);

// Sets the place and the API of a leak, and what entries with old ids know it by.
void set_place(const ResolvedStack& stack, const std::string& api, BaselineLeak* leak);

// Whether the leak has grown beyond `allowed`: in bytes, or in number.
bool has_grown(const BaselineLeak& before, const BaselineLeak& now, const Growth& allowed);

// Reads the file at `path`. Throws FileError when it cannot be read or is not a baseline.
Baseline read_baseline(const std::string& path);

// The leaks of the reports. Leaks of several processes with the same id become one, with the sum of their bytes. Cached
// memory is included only when `strict`.
Baseline baseline_of(const std::vector<Report>& reports, bool strict);

// Writes `baseline` to `path` and keeps the comments of a baseline that is already there. Returns a sentence for each
// entry of that one which `baseline` has no leak for. Throws FileError when the file cannot be written, or when `path`
// holds something other than a baseline, which is left as it is.
std::vector<std::string> write_baseline(const std::string& path, Baseline baseline);

// Sets in each leak of the reports how it compares with `baseline`, and in each report how many leaks are new, grown
// and known. The last report lists the ids that are gone. `path` is only for display.
void compare(const Baseline& baseline, const std::string& path, const Growth& allowed, bool strict,
             std::vector<Report>* reports);

// "new", "grown", "known": the names in the JSON report.
const char* comparison_name(Comparison comparison);

}  // namespace culprit::report
