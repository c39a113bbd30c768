// The files that lie beside a dump: the one list of their names. None of them ends with ".dump", so that the pattern
// `*.dump`, which the documents use, takes no other file than dumps.
#pragma once

#include <string>

#include "interpose/format/dump_file.h"

namespace culprit::report {

constexpr char kGpuAnswersEnding[] = ".gpu.json";     // NVML's answers (judge/gpu_answers.h)
constexpr char kPythonViewEnding[] = ".python.json";  // the view from inside Python (judge/python_view.h)

// The id of its run in a dump's header; empty: the dump is of no run.
std::string run_id_of(const format::Header& header);

// The file of a run (merge/run_file.h): "culprit-run.ID.json".
std::string run_file_name(const std::string& id);
// The id in such a name; empty: it is none.
std::string run_id_of_file(const std::string& name);

// Whether a file of this name is one of them.
bool is_side_file(const std::string& path);

}  // namespace culprit::report
