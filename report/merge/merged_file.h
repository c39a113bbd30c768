// The file that `culprit merge` writes: a merged report (report_merger.h) as JSON of schema culprit.merged/2, which can
// be reported and merged again. It contains everything that merging keeps, each frame and stack once.
#pragma once

#include <string>

#include "report/base/file_error.h"

namespace culprit::report {

struct JudgeOptions;
struct Report;

// The schema of the file. A new one when a field changes its meaning; a new row of causes.def or kinds.def needs none.
inline constexpr char kMergedSchema[] = "culprit.merged/2";

// Whether the file begins like a merged file of any version of culprit. False when it cannot be read.
bool is_merged_file(const std::string& path);

// Writes the report of a ReportMerger to `path`; on failure no partial file remains. Throws FileError.
void write_merged_file(const std::string& path, const Report& report);

// The same as CBOR (RFC 8949), for the part of a job that another process merges on, and the part as it was:
// ReportMerger::add() takes it. It has six tenths of the bytes of the JSON text, and is taken in a third faster. `name`
// stands for the part in messages. Throws FileError when it is damaged.
std::string merged_part(const Report& part);
Report read_merged_part(const std::string& bytes, const std::string& name);

// Reads a merged file. With the options, memory that libraries hold for themselves may count as leaks. Throws FileError
// when the file cannot be read, is damaged, or is of another schema.
Report read_merged_file(const std::string& path, const JudgeOptions& options);

}  // namespace culprit::report
