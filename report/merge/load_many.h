// Loads many dumps with several threads, and merges those of a job's ranks into one report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/judge/load_options.h"
#include "report/merge/job_options.h"
#include "report/model/report.h"

namespace culprit::report {

struct LoadedReports {
  std::vector<Report> reports;  // the merged one first, then the others in the order of the paths
  bool unreadable = false;      // some could not be read; stderr names them
  std::vector<std::pair<std::string, std::string>> problems;  // their paths, and why
};

// Reads all files in `paths`: dumps and files written by `culprit merge`. With Merge::kAuto, the dumps of
// ranks and the merged files become one report if there are two or more. Shows the progress on a terminal. Throws
// FileError when the same process occurs twice among merged files.
LoadedReports load_many(const std::vector<std::string>& paths, const LoadOptions& options, const JobOptions& job);

// Names the ranks of a job that have no dump (Report::missing_ranks). `whole_job`: the reports are those of all
// processes that `culprit run` started, so that a rank is missing even where they are not merged; otherwise only ranks
// that a merged report lacks are named.
void add_missing_ranks(bool whole_job, std::vector<Report>* reports);

}  // namespace culprit::report
