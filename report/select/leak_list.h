// Leaks as a plain list, from a dump, a merged file, a JSON report or a baseline, so that any two of these can be
// compared.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/select/baseline.h"

namespace culprit::report {

struct Frame;
struct LoadOptions;

struct ListedLeak {
  BaselineLeak leak;
  std::vector<const Frame*> frames;  // innermost first; empty when the source has none, for example a baseline
};

// A finding as far as two runs are compared: findings/finding.h.
struct ListedFinding {
  std::string name;  // of its row
  std::string title;
  std::string text;
  std::string where;  // "": not known
};

// The cause of memory at a mark, while nothing is known of why it is kept.
constexpr char kLiveCause[] = "live";

// The moment of a list that is no whole run: marked_list.h.
struct ListedMark {
  std::string name;  // empty: the beginning or the end
  std::uint64_t number = 0;
  std::uint64_t time_ns = 0;
};

struct LeakList {
  std::string path;
  std::string source;              // "dump", "merged", "report" or "baseline"; "mark", "beginning", "now", "end"
  std::optional<ListedMark> mark;  // of the last four; empty: the leaks of a run
  std::map<std::string, ListedLeak> leaks;  // by id; leaks of several processes with the same id are one
  std::vector<std::string> not_known;       // why it may lack leaks: reasons_not_known()
  std::vector<std::string> notes;           // remarks about the source for the reader
  // Without those that are in `not_known`. Empty: the source tells of none (a baseline, a report of an older culprit).
  std::optional<std::vector<ListedFinding>> findings;
  std::optional<std::vector<Keeper>> keepers;       // of live memory; empty: the source tells of none
  std::vector<std::shared_ptr<const void>> owners;  // own the objects that the frames point to

  std::uint64_t bytes() const;
  std::uint64_t count() const;
};

// Reads the file at `path`, whatever its type. Cached memory is included only with options.judge.strict; a baseline
// keeps the choice made when it was written. `judged`: see RunKnowledge::add_to(). Throws FileError or DumpError, which
// describe the problem.
LeakList read_leak_list(const std::string& path, const LoadOptions& options, bool judged = false);

}  // namespace culprit::report
