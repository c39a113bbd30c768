// Loads many dumps with several threads, and merges those of a job's ranks into one report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/judge/load_options.h"
#include "report/merge/job_options.h"
#include "report/model/report.h"

namespace culprit::report {

class ReportMerger;

struct LoadedReports {
  std::vector<Report> reports;  // the merged one first, then the others in the order of the paths
  bool unreadable = false;      // some could not be read; stderr names them
  std::vector<std::pair<std::string, std::string>> problems;  // their paths, and why
};

// Reads all files in `paths`: dumps and files written by `culprit merge`. With Merge::kAuto, the dumps of
// ranks and the merged files become one report if there are two or more. Shows the progress on a terminal. Throws
// FileError when the same process occurs twice among merged files.
LoadedReports load_many(const std::vector<std::string>& paths, const LoadOptions& options, const JobOptions& job);

// The steps of load_many() for the dumps of one job, which several processes may share (report/ranks):

// How many files were merged, and the errors of the others by the index of the path.
struct PartOfJob {
  std::size_t merged = 0;
  std::vector<std::pair<std::size_t, std::string>> errors;
};
// Tells the options which programs of a process came last, of all files of the job.
void add_last_starts(const std::vector<std::string>& paths, LoadOptions* options);
// Adds the files paths[i], for each i of `indices`, with `jobs` threads (0: one for each processor).
PartOfJob merge_files(const std::vector<std::string>& paths, const std::vector<std::size_t>& indices,
                      const LoadOptions& options, unsigned jobs, ReportMerger* into);
// The report of all parts. Prints the errors, which are in the order of the paths. Throws FileError when the same
// process occurs twice.
void finish_job(const PartOfJob& all, const std::vector<std::string>& paths, const LoadOptions& options,
                ReportMerger* merger, LoadedReports* loaded);

// Names the ranks of a job that have no dump (Report::missing_ranks). `whole_job`: the reports are those of all
// processes that `culprit run` started, so that a rank is missing even where they are not merged; otherwise only ranks
// that a merged report lacks are named.
void add_missing_ranks(bool whole_job, std::vector<Report>* reports);

}  // namespace culprit::report
