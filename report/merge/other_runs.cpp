#include "report/merge/other_runs.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "report/base/words.h"
#include "report/dump/run_dumps.h"

namespace culprit::report {
namespace {

// Times of CLOCK_REALTIME.
struct Span {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;  // 0: not known
};

// Of the process that wrote the dump; empty: the file is no dump.
std::optional<Span> span_of(const std::string& path) {
  const std::optional<format::Header> header = header_of_dump(path);
  if (!header) return {};
  const std::uint64_t begin = header->start_realtime_ns;
  if (header->process_state != format::ProcessState::kRunning) return Span{begin, begin + header->end_time_ns};
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return {};
  const std::uint64_t written =
      static_cast<std::uint64_t>(info.st_mtim.tv_sec) * 1000000000 + static_cast<std::uint64_t>(info.st_mtim.tv_nsec);
  return Span{begin, std::max(begin, written)};
}

std::string real_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  return error ? path : real.string();
}

// Of a job there is one note, which counts the others.
class Notes {
 public:
  explicit Notes(std::vector<Report>* reports) : reports_(*reports) {
    for (std::size_t i = 0; i < reports_.size(); ++i) by_path_.emplace(reports_[i].dump_path, i);
  }

  // `path`: the file that the note is about.
  void add(const std::string& path, const std::string& note) {
    const auto own = by_path_.find(path);
    Said& said = said_[own != by_path_.end() && reports_[own->second].job.empty() ? own->second : 0];
    if (said.count++ == 0) said.first = note;
  }

  void finish() {
    for (const auto& [report, said] : said_) {
      reports_[report].notes.push_back(said.count == 1 ? said.first
                                                       : said.first + "; the same holds for " +
                                                             plural(said.count - 1, "other dump", "other dumps"));
    }
  }

 private:
  struct Said {
    std::string first;
    std::size_t count = 0;
  };
  std::vector<Report>& reports_;
  std::map<std::string, std::size_t> by_path_;
  std::map<std::size_t, Said> said_;
};

void note_newer(const std::vector<std::string>& paths, const std::map<std::string, Span>& spans, Notes* notes) {
  std::set<std::string> named;
  for (const std::string& path : paths) named.insert(real_path(path));
  for (const std::string& path : paths) {
    const auto own = spans.find(path);
    if (own == spans.end()) continue;
    std::string newest;
    std::uint64_t newest_ns = own->second.end_ns;
    for (const std::string& other : numbered_siblings(path)) {
      if (named.count(real_path(other)) != 0) continue;
      const std::optional<Span> span = span_of(other);
      if (!span || span->begin_ns <= newest_ns) continue;
      newest = other;
      newest_ns = span->begin_ns;
    }
    if (newest.empty()) continue;
    std::string note = "a later run left ";
    note.append(newest).append(" beside ").append(path).append(": this is the report of the older one");
    notes->add(path, note);
  }
}

// A process of a rank.
struct OfRank {
  unsigned rank = 0;
  unsigned job_size = 0;
  const std::string* host = nullptr;
  const std::string* path = nullptr;
  Span span;
};

template <typename Process>
void collect(const Process& process, const std::string& path, const std::map<std::string, Span>& spans,
             std::vector<OfRank>* list) {
  if (!process.rank) return;
  const auto known = spans.find(path);
  list->push_back({*process.rank, process.job_size, &process.host, &path,
                   known != spans.end() ? known->second : Span{process.start_realtime_ns, 0}});
}

// Why the processes, of which `other` began later, are not of one run; empty: they may be.
std::string difference(const OfRank& one, const OfRank& other) {
  if (one.job_size != 0 && other.job_size != 0 && one.job_size != other.job_size)
    return "their jobs have " + std::to_string(one.job_size) + " and " + std::to_string(other.job_size) + " ranks";
  if (one.span.end_ns != 0 && other.span.begin_ns > one.span.end_ns)
    return "the second began " + format_time(other.span.begin_ns - one.span.end_ns) + " after the end of the first";
  if (!one.host->empty() && !other.host->empty() && *one.host != *other.host)
    return "they ran on " + *one.host + " and " + *other.host + " at the same time";
  return {};
}

void note_equal_ranks(const std::vector<Report>& reports, const std::map<std::string, Span>& spans, Notes* notes) {
  std::vector<OfRank> processes;
  for (const Report& report : reports) {
    if (report.job.empty()) collect(report.process, report.dump_path, spans, &processes);
    for (const JobProcess& process : report.job) collect(process, process.dump_path, spans, &processes);
  }
  std::sort(processes.begin(), processes.end(), [](const OfRank& left, const OfRank& right) {
    return std::tie(left.rank, left.span.begin_ns, *left.path) < std::tie(right.rank, right.span.begin_ns, *right.path);
  });
  for (std::size_t i = 1; i < processes.size(); ++i) {
    const OfRank& one = processes[i - 1];
    const OfRank& other = processes[i];
    const std::string why = one.rank == other.rank ? difference(one, other) : "";
    if (why.empty()) continue;
    notes->add(*other.path, *one.path + " and " + *other.path + " are both of rank " + std::to_string(one.rank) +
                                " and of different runs: " + why);
  }
}

}  // namespace

void add_notes_on_runs(const std::vector<std::string>& paths, std::vector<Report>* reports) {
  if (reports->empty()) return;
  std::map<std::string, Span> spans;
  for (const std::string& path : paths) {
    if (const std::optional<Span> span = span_of(path)) spans.emplace(path, *span);
  }
  Notes newer(reports);
  note_newer(paths, spans, &newer);
  newer.finish();
  Notes equal(reports);
  note_equal_ranks(*reports, spans, &equal);
  equal.finish();
}

}  // namespace culprit::report
