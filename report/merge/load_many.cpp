#include "report/merge/load_many.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "report/base/failure.h"
#include "report/base/log.h"
#include "report/base/parallel.h"
#include "report/base/printable.h"
#include "report/base/progress.h"
#include "report/dump/run_dumps.h"
#include "report/judge/job_cache.h"
#include "report/judge/load_report.h"
#include "report/merge/join_sharings.h"
#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "report/symbols/shared_symbols.h"

namespace culprit::report {
namespace {

// Checked before anything is read, because a thousand separate reports would not fit into memory.
bool is_of_a_rank(const std::string& path) {
  const std::optional<format::Header> header = header_of_dump(path);
  return header && header->rank != 0;
}

struct Parts {
  std::vector<std::string> merged;
  std::vector<std::string> apart;
};

// By default the ranks of a job are merged. A process of no rank, for example the launcher, is reported apart.
Parts parts_of(const std::vector<std::string>& paths, Merge merge) {
  Parts parts;
  for (const std::string& path : paths) {
    const bool to_merge =
        merge == Merge::kAlways || (merge == Merge::kAuto && (is_of_a_rank(path) || is_merged_file(path)));
    (to_merge ? parts.merged : parts.apart).push_back(path);
  }
  if (merge == Merge::kAuto && parts.merged.size() == 1) {
    // The only rank comes first, too.
    parts.apart.insert(parts.apart.begin(), parts.merged.front());
    parts.merged.clear();
  }
  return parts;
}

// Each program of a process that calls exec has a dump of its own.
std::map<ProcessKey, std::uint64_t> last_starts_of(const std::vector<std::string>& paths) {
  std::map<ProcessKey, std::uint64_t> last;
  for (const std::string& path : paths) {
    const std::optional<format::Header> header = header_of_dump(path);
    if (!header) continue;
    std::uint64_t& start = last[process_key(*header)];
    start = std::max(start, header->start_realtime_ns);
  }
  return last;
}

// Reads files for several threads, which must not outlive it.
class Loader {
 public:
  // `indices`: those of the paths to be read.
  Loader(const std::vector<std::string>& paths, std::vector<std::size_t> indices, const LoadOptions& options,
         bool merged)
      : paths_(paths),
        indices_(std::move(indices)),
        progress_(indices_.size()),
        options_(options),
        symbols_([this](std::vector<ModuleSymbols>& modules) { look_up_symbols(modules, options_.symbols); }) {
    options_.judge.ids = !merged;
    if (indices_.size() == 1) {
      options_.symbols.progress = [this](const std::string& what) { progress_.doing(what); };
    } else {
      options_.lookup = [this](std::vector<ModuleSymbols>& modules) { symbols_.look_up(modules); };
    }
  }

  // Calls use(report, index) for each readable file until none is left. Every thread calls this. `cache`: what the
  // thread keeps from one dump to the next; the reports must not outlive their use() then.
  template <typename Use>
  void load(Use use, JobCache* cache = nullptr) {
    LoadOptions options = options_;
    options.cache = cache;
    for (std::size_t next = next_++; next < indices_.size(); next = next_++) {
      const std::size_t i = indices_[next];
      try {
        use(read(paths_[i], options), i);
      } catch (const std::runtime_error& error) {  // DumpError, FileError
        add_error(i, error.what());
      } catch (const std::exception& error) {  // std::bad_alloc, std::length_error
        add_error(i, printable(paths_[i]) + ": " + failure_text(error));
      }
      if (cache != nullptr) cache->limit();
      progress_.done("reading dumps");
    }
  }

  // Those of files that could not be read, by index.
  std::vector<std::pair<std::size_t, std::string>> take_errors() {
    std::sort(errors_.begin(), errors_.end());
    return std::move(errors_);
  }

 private:
  static Report read(const std::string& path, const LoadOptions& options) {
    if (!is_merged_file(path)) return load_report(path, options);
    const log::StepTime time("read merged file " + path);
    return read_merged_file(path, options.judge);
  }

  void add_error(std::size_t index, const std::string& message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    errors_.emplace_back(index, message);
  }

  const std::vector<std::string>& paths_;
  const std::vector<std::size_t> indices_;
  Progress progress_;
  LoadOptions options_;
  SharedSymbols symbols_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::vector<std::pair<std::size_t, std::string>> errors_;
};

unsigned jobs_for(std::size_t files, unsigned given) {
  const unsigned wanted = given != 0 ? given : std::max(1U, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::min<std::size_t>(wanted, std::max<std::size_t>(1, files)));
}

// A process that is merged twice would count twice. Equal processes are neighbours in report.job.
void check_no_process_twice(const Report& report) {
  for (std::size_t i = 1; i < report.job.size(); ++i) {
    const JobProcess& one = report.job[i - 1];
    const JobProcess& other = report.job[i];
    if (one.pid == other.pid && one.host == other.host && one.start_realtime_ns == other.start_realtime_ns)
      throw FileError(one.dump_path + " and " + other.dump_path +
                      " (or the merged files with them) are of one process, " + std::to_string(one.pid) + " on " +
                      one.host + ": name each process once");
  }
}

std::vector<std::size_t> all_indices(const std::vector<std::string>& paths) {
  std::vector<std::size_t> indices(paths.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

void tell(const std::vector<std::pair<std::size_t, std::string>>& errors, const std::vector<std::string>& paths,
          LoadedReports* loaded) {
  for (const auto& [index, message] : errors) {
    log::error(message);
    loaded->problems.emplace_back(paths[index], message);
  }
  loaded->unreadable = loaded->unreadable || !errors.empty();
}

void load_merged(const std::vector<std::string>& paths, const LoadOptions& options, const JobOptions& job,
                 LoadedReports* loaded) {
  ReportMerger all;
  const PartOfJob part = merge_files(paths, all_indices(paths), options, job.jobs, &all);
  finish_job(part, paths, options, &all, loaded);
}

void load_apart(const std::vector<std::string>& paths, const LoadOptions& options, const JobOptions& job,
                LoadedReports* loaded) {
  Loader loader(paths, all_indices(paths), options, false);
  std::vector<std::optional<Report>> reports(paths.size());
  run_on_threads(jobs_for(paths.size(), job.jobs),
                 [&] { loader.load([&](Report report, std::size_t i) { reports[i] = std::move(report); }); });
  for (std::optional<Report>& report : reports) {
    if (report) loaded->reports.push_back(std::move(*report));
  }
  tell(loader.take_errors(), paths, loaded);
}

}  // namespace

void add_last_starts(const std::vector<std::string>& paths, LoadOptions* options) {
  if (paths.size() > 1) options->machine.last_start_ns = last_starts_of(paths);
}

PartOfJob merge_files(const std::vector<std::string>& paths, const std::vector<std::size_t>& indices,
                      const LoadOptions& options, unsigned jobs, ReportMerger* into) {
  PartOfJob part;
  Loader loader(paths, indices, options, true);
  std::mutex mutex;
  run_on_threads(jobs_for(indices.size(), jobs), [&] {
    ReportMerger mine;
    JobCache cache;
    std::size_t taken = 0;
    const auto add = [&](Report report, std::size_t) {
      mine.add(std::move(report), cache.stacks.get());
      ++taken;
    };
    loader.load(add, &cache);
    if (taken == 0) return;
    Report merged = mine.finish_part();
    const std::lock_guard<std::mutex> lock(mutex);
    into->add(std::move(merged));
    part.merged += taken;
  });
  part.errors = loader.take_errors();
  return part;
}

void finish_job(const PartOfJob& all, const std::vector<std::string>& paths, const LoadOptions& options,
                ReportMerger* merger, LoadedReports* loaded) {
  if (all.merged != 0) {
    const log::StepTime time("merge of " + std::to_string(all.merged) + " reports");
    loaded->reports.push_back(merger->finish(options.judge.strict));
    check_no_process_twice(loaded->reports.back());
  }
  tell(all.errors, paths, loaded);
}

LoadedReports load_many(const std::vector<std::string>& paths, const LoadOptions& given, const JobOptions& job) {
  LoadedReports loaded;
  LoadOptions options = given;
  add_last_starts(paths, &options);
  const Parts parts = parts_of(paths, job.merge);
  if (!parts.merged.empty()) load_merged(parts.merged, options, job, &loaded);
  if (!parts.apart.empty()) load_apart(parts.apart, options, job, &loaded);
  std::vector<Report*> reports;
  reports.reserve(loaded.reports.size());
  for (Report& report : loaded.reports) reports.push_back(&report);
  join_sharings(reports);
  return loaded;
}

void add_missing_ranks(bool whole_job, std::vector<Report>* reports) {
  if (!whole_job) {
    for (Report& report : *reports) {
      if (!report.job.empty()) report.missing_ranks = missing_ranks_of({&report}, "it was not named");
    }
    return;
  }
  std::vector<const Report*> ranks;
  Report* first = nullptr;
  for (Report& report : *reports) {
    if (report.job.empty() && !report.process.rank) continue;
    ranks.push_back(&report);
    if (first == nullptr) first = &report;
  }
  if (first != nullptr) {
    first->missing_ranks =
        missing_ranks_of(ranks, "it ran on another node (--out must name a folder that all nodes share)");
  }
}

}  // namespace culprit::report
