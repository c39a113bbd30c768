#include "report/merge/run_knowledge.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "report/base/file_error.h"
#include "report/base/log.h"
#include "report/base/words.h"
#include "report/dump/run_dumps.h"
#include "report/dump/side_files.h"
#include "report/merge/run_file.h"

namespace culprit::report {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFoldersAbove = 16;
constexpr std::size_t kNamed = 3;  // dumps in a sentence

std::string file_in(const fs::path& folder, const std::string& id) {
  const fs::path path = folder / run_file_name(id);
  std::error_code error;
  // A damaged file system or a folder that may not be searched is no "there is none".
  return fs::symlink_status(path, error).type() != fs::file_type::not_found ? path.string() : std::string();
}

std::string file_beside_or_above(const std::string& dump, const std::string& id) {
  std::error_code error;
  fs::path folder = fs::absolute(dump, error).parent_path();
  for (int i = 0; !error && i < kMostFoldersAbove; ++i) {
    const std::string found = file_in(folder, id);
    if (!found.empty() || !folder.has_relative_path()) return found;
    folder = folder.parent_path();
  }
  return {};
}

RunRecord record_in(const std::string& path, const std::string& id) {
  try {
    return read_run_file(path, id);
  } catch (const FileError& error) {
    RunRecord run;
    run.id = id;
    run.problem = std::string("the file of the run cannot be used: ") + error.what();
    return run;
  }
}

RunRecord missing_record(const std::string& id) {
  RunRecord run;
  run.id = id;
  run.problem = "the file of the run (" + run_file_name(id) +
                ") is missing, so that processes without a dump are not known: copy it with the dumps";
  return run;
}

bool is_there(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// "a.dump, b.dump, c.dump, ..."
std::string list_of(const std::vector<std::string>& paths) {
  std::string text;
  for (std::size_t i = 0; i < paths.size() && i < kNamed; ++i) text += (i == 0 ? "" : ", ") + paths[i];
  return text + (paths.size() > kNamed ? ", ..." : "");
}

bool runs(const Report& report) {
  return report.process.status.ended == Ended::kRunning ||
         std::any_of(report.job.begin(), report.job.end(),
                     [](const JobProcess& process) { return process.ended == Ended::kRunning; });
}

}  // namespace

RunKnowledge::RunKnowledge(const NamedDumps& named) : named_(named) {
  for (const std::string& path : named.paths) {
    const std::optional<format::Header> header = header_of_dump(path);
    if (!header) continue;
    processes_.emplace(header->pid, header->start_realtime_ns);
    const std::string id = run_id_of(*header);
    if (id.empty()) continue;
    run_of_dump_[path] = id;
    if (const auto known = runs_.find(id); known != runs_.end() && known->second.problem.empty()) continue;
    const std::string file = file_beside_or_above(path, id);
    runs_[id] = file.empty() ? missing_record(id) : record_in(file, id);
  }
  std::map<std::string, RunRecord> removed_runs;
  std::vector<std::string> removed_files;
  for (const std::string& file : named.run_files) {
    const std::string id = run_id_of_file(fs::path(file).filename().string());
    const auto known = runs_.find(id);
    if (known != runs_.end() && known->second.problem.empty()) continue;
    RunRecord run = record_in(file, id);
    const bool removed =
        known == runs_.end() && !run.dumps.empty() &&
        std::none_of(run.dumps.begin(), run.dumps.end(), [](const DumpOfRun& dump) { return is_there(dump.path); });
    if (removed) {
      removed_runs[id] = std::move(run);
      removed_files.push_back(file);
    } else {
      runs_[id] = std::move(run);
    }
  }
  // Where no dump is left at all, what they had is not known.
  if (runs_.empty() && named.paths.empty()) {
    runs_ = std::move(removed_runs);
    return;
  }
  for (const std::string& file : removed_files)
    log::note(file + ": is of a run whose dumps are no longer here, and was left out");
}

std::map<std::string, EndOfRun> RunKnowledge::ends() const {
  std::map<std::string, EndOfRun> ends;
  for (const auto& [id, run] : runs_) {
    if (run.end) ends[id] = *run.end;
  }
  return ends;
}

bool RunKnowledge::is_whole_job() const {
  if (runs_.size() != 1 || run_of_dump_.size() != named_.paths.size()) return false;
  const RunRecord& run = runs_.begin()->second;
  // Where dumps were not named, that is the reason.
  return run.problem.empty() && run.ended && run.whole_job &&
         std::all_of(run.dumps.begin(), run.dumps.end(), [&](const DumpOfRun& dump) {
           return processes_.count({dump.pid, dump.start_realtime_ns}) != 0;
         });
}

// Those of merged files. A run that another file knows better stays as it is.
void RunKnowledge::take_runs_of(const std::vector<Report>& reports) {
  for (const Report& report : reports) {
    for (const JobProcess& process : report.job) processes_.emplace(process.pid, process.start_realtime_ns);
    for (const RunRecord& run : report.runs) {
      const auto [at, is_new] = runs_.try_emplace(run.id, run);
      if (!is_new && (!at->second.problem.empty() || !at->second.ended) && run.problem.empty()) at->second = run;
    }
  }
}

Report* RunKnowledge::report_of_run(const std::string& id, std::vector<Report>* reports) const {
  const auto is_of = [&](const std::string& dump) {
    const auto at = run_of_dump_.find(dump);
    return at != run_of_dump_.end() && at->second == id;
  };
  for (Report& report : *reports) {
    if (report.job.empty() ? is_of(report.dump_path)
                           : std::any_of(report.job.begin(), report.job.end(),
                                         [&](const JobProcess& process) { return is_of(process.dump_path); }))
      return &report;
    if (std::any_of(report.runs.begin(), report.runs.end(), [&](const RunRecord& run) { return run.id == id; }))
      return &report;
  }
  return reports->empty() ? nullptr : &reports->front();
}

void RunKnowledge::add_sentence(const std::string& id, const std::string& sentence,
                                std::vector<Report>* reports) const {
  Report* const report = report_of_run(id, reports);
  if (report != nullptr) {
    report->not_joined.push_back(sentence);
  } else {
    reports->push_back(report_without_dump(0, "culprit run", sentence));
  }
}

void RunKnowledge::add_dumps_not_named(const RunRecord& run, bool judged, std::vector<Report>* reports) const {
  std::vector<std::string> gone;
  std::vector<std::string> not_named;
  for (const DumpOfRun& dump : run.dumps) {
    if (processes_.count({dump.pid, dump.start_realtime_ns}) != 0) continue;
    (is_there(dump.path) ? not_named : gone).push_back(dump.path);
  }
  if (!gone.empty()) {
    add_sentence(run.id,
                 plural(gone.size(), "dump", "dumps") + " of the run " + (gone.size() == 1 ? "is" : "are") +
                     " not here: " + list_of(gone),
                 reports);
  }
  if (not_named.empty()) return;
  const std::string sentence = plural(not_named.size(), "dump", "dumps") + " of the run " +
                               (not_named.size() == 1 ? "was" : "were") + " not named: " + list_of(not_named);
  if (judged) {
    add_sentence(run.id, sentence, reports);
  } else if (Report* const report = report_of_run(run.id, reports)) {
    report->notes.push_back(sentence);
  }
}

void RunKnowledge::add_run(const RunRecord& run, bool judged, std::vector<Report>* reports) const {
  if (!run.problem.empty()) {
    add_sentence(run.id, run.problem, reports);
    return;
  }
  if (!run.ended) {
    if (judged || std::none_of(reports->begin(), reports->end(), runs))
      add_sentence(run.id,
                   "the run did not come to its end: `culprit run` goes on, or was killed, so that processes without a "
                   "dump are not known",
                   reports);
    return;
  }
  add_dumps_not_named(run, judged, reports);
}

void RunKnowledge::add_to(bool judged, std::vector<Report>* reports) {
  take_runs_of(*reports);
  for (const auto& [id, run] : runs_) add_run(run, judged, reports);
  // They come first: nothing is clean before it is known.
  std::vector<Report> without_dump;
  for (const auto& [id, run] : runs_) {
    for (const ProcessWithoutDump& process : run.without_dump) without_dump.push_back(report_of(process));
  }
  reports->insert(reports->begin(), std::make_move_iterator(without_dump.begin()),
                  std::make_move_iterator(without_dump.end()));
}

void RunKnowledge::store_in(Report* merged) const {
  std::set<std::string> known;
  for (RunRecord& run : merged->runs) {
    known.insert(run.id);
    const auto better = runs_.find(run.id);
    if (better != runs_.end() && better->second.problem.empty()) run = better->second;
  }
  for (const auto& [id, run] : runs_) {
    if (known.count(id) == 0) merged->runs.push_back(run);
  }
}

std::vector<std::string> RunKnowledge::lives_on() const {
  std::vector<std::string> sentences;
  for (const auto& [id, run] : runs_) {
    if (!run.lives_on.empty()) sentences.push_back(run.lives_on);
  }
  return sentences;
}

std::vector<std::string> RunKnowledge::notes() const {
  std::vector<std::string> sentences;
  for (const auto& [id, run] : runs_) sentences.insert(sentences.end(), run.notes.begin(), run.notes.end());
  return sentences;
}

std::vector<std::string> RunKnowledge::failures() const {
  std::vector<std::string> sentences;
  for (const auto& [id, run] : runs_) {
    if (run.failure.empty()) continue;
    std::string command;
    for (const std::string& word : run.command) command += (command.empty() ? "" : " ") + word;
    sentences.push_back("the command of the run " + run.failure + (command.empty() ? "" : ": " + printable(command)));
  }
  return sentences;
}

void add_left_out(const std::vector<std::string>& left_out, std::vector<Report>* reports) {
  for (const std::string& sentence : left_out) {
    if (reports->empty()) {
      reports->push_back(report_without_dump(0, "files", sentence));
    } else {
      reports->front().not_joined.push_back(sentence);
    }
  }
}

}  // namespace culprit::report
