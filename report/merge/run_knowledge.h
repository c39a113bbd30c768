// Joins dumps with what `culprit run` knew of their runs, so that a report that is made later judges like the run's
// own.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "report/dump/named_dumps.h"
#include "report/dump/process_status.h"
#include "report/model/report.h"

namespace culprit::report {

class RunKnowledge {
 public:
  // Reads the files of the runs of `named`: beside a dump, in a folder above it, or in a folder that was named.
  explicit RunKnowledge(const NamedDumps& named);

  // How the commands ended.
  std::map<std::string, EndOfRun> ends() const;

  // Whether the reports are of one run whose command started all ranks of its job.
  bool is_whole_job() const;

  // Adds what is missing to the reports of the dumps: processes without a dump as reports of their own, the rest as
  // sentences. `judged`: the reports decide about an exit code; else a dump of a run may be looked at without the
  // others, and a process while it runs. Call it once.
  void add_to(bool judged, std::vector<Report>* reports);

  // For a merged file, which is joined when it is read.
  void store_in(Report* merged) const;

  // Processes that went on after the commands: sentences.
  std::vector<std::string> lives_on() const;

  // The notes of the runs: sentences about facts that could not be looked at.
  std::vector<std::string> notes() const;

  // How the commands failed: sentences. An exit code that `culprit run` had is not lost.
  std::vector<std::string> failures() const;

 private:
  void take_runs_of(const std::vector<Report>& reports);
  Report* report_of_run(const std::string& id, std::vector<Report>* reports) const;
  void add_run(const RunRecord& run, bool judged, std::vector<Report>* reports) const;
  void add_dumps_not_named(const RunRecord& run, bool judged, std::vector<Report>* reports) const;
  void add_sentence(const std::string& id, const std::string& sentence, std::vector<Report>* reports) const;

  const NamedDumps& named_;                                      // of the caller, and lives longer
  std::map<std::string, RunRecord> runs_;                        // by id
  std::map<std::string, std::string> run_of_dump_;               // path to id
  std::set<std::pair<std::uint32_t, std::uint64_t>> processes_;  // pid and start, of all that are reported
};

// The sentences about files of folders that are not read.
void add_left_out(const std::vector<std::string>& left_out, std::vector<Report>* reports);

}  // namespace culprit::report
