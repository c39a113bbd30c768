// From the path of a dump to a finished report: read, resolve symbols, judge.
#pragma once

#include <string>

#include "report/dump/dump_error.h"
#include "report/judge/load_options.h"

namespace culprit::report {

class Dump;
struct Report;

// Throws DumpError when the dump cannot be read. Thread-safe.
Report load_report(const std::string& path, const LoadOptions& options);
// load_report() that shows on a terminal which module's symbols are being read when that takes long.
Report load_with_progress(const std::string& path, LoadOptions options);

// Reports a dump that is already open. The dump may be closed afterwards.
Report load_report(const Dump& dump, const LoadOptions& options);

}  // namespace culprit::report
