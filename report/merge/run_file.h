// The file of one `culprit run`, beside its dumps (schema culprit.run/1): what the command knows and its dumps do not.
// Each dump of the run has the id of the run in its header, so that a later report finds the file.
#pragma once

#include <string>
#include <vector>

#include "report/model/report.h"
#include "report/model/run_record.h"

namespace culprit::report {

// A new id.
std::string new_run_id();
// Throws FileError.
void write_run_file(const std::string& folder, const RunRecord& run);
// Throws FileError, also when the file is none of the run `id`.
RunRecord read_run_file(const std::string& path, const std::string& id);

// A report without content, for a process that recorded nothing for this reason. `pid` 0: not known.
Report report_without_dump(int pid, const std::string& program, const std::string& reason);
// The same for a process that did `deed`: "recorded into ...".
Report report_of_deed(int pid, const std::string& program, const std::string& deed);

// Of such reports, and back.
std::vector<ProcessWithoutDump> processes_without_dump(const std::vector<Report>& reports);
Report report_of(const ProcessWithoutDump& process);

}  // namespace culprit::report
