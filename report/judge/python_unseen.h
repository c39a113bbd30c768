// The parts of a process's Python that the library did not read, and the reasons.
#pragma once

#include <string>

#include "interpose/format/dump_file.h"

namespace culprit::report {

// A note that the report has no lines of Python code: without a full stop. Empty: they were read, or there are none.
std::string python_lines_note(const format::Header& header);

// Why the objects of a process's Python were not looked at before its end: without a full stop. Empty: they were, or
// the process has no Python that calls CUDA. `has_unseen_cache`: a framework's cache is there that no view has.
std::string why_python_is_unseen(const format::Header& header, bool has_unseen_cache);

}  // namespace culprit::report
