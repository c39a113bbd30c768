// The file that `culprit merge` writes: a merged report (report_merger.h) as JSON of schema culprit.merged/1, which can
// be reported and merged again. It contains everything that merging keeps, each frame and stack once.
#pragma once

#include <string>

#include "report/base/file_error.h"
#include "report/judge/load_report.h"
#include "report/model/report.h"

namespace culprit::report {

// The schema of the file; a change of the numbers in it (causes.def, kinds) needs a new one.
inline constexpr char kMergedSchema[] = "culprit.merged/1";

// Whether the file begins like a merged file. False when it cannot be read.
bool is_merged_file(const std::string& path);

// Writes the report of a ReportMerger to `path`; on failure no partial file remains. Throws FileError.
void write_merged_file(const std::string& path, const Report& report);

// Reads a merged file. With the options, memory that libraries hold for themselves may count as leaks. Throws FileError
// when the file cannot be read or is damaged.
Report read_merged_file(const std::string& path, const JudgeOptions& options);

}  // namespace culprit::report
