// The dumps of a whole job: read by several threads, and merged into one report when they are ranks of one job.
#pragma once

#include <string>
#include <vector>

#include "report/commands/report_options.h"

namespace culprit {

struct LoadedReports {
  std::vector<Report> reports;  // in the order of the paths; a single one when they were merged
  bool unreadable = false;      // some could not be read; stderr names them
};

// Reads all files that `paths` name: dumps, and what `culprit merge` wrote. With options.merge kAuto they are merged
// when there are several and each is of a rank of a job. Shows on a terminal how far it is. Throws FileError when one
// process is named twice among those that are merged.
LoadedReports load_many(const std::vector<std::string>& paths, const OutputOptions& options);

// Notes in merged reports which ranks of the job have no dump.
void add_missing_ranks(std::vector<Report>* reports);

}  // namespace culprit
