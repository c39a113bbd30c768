#include "report/ranks/merge_on_ranks.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "report/base/file_error.h"
#include "report/base/log.h"
#include "report/base/stable_hash.h"
#include "report/base/words.h"
#include "report/merge/join_sharings.h"
#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "report/merge/spread.h"
#include "report/ranks/rank_part.h"

namespace culprit::report {
namespace {

class RankOfMerge {
 public:
  RankOfMerge(const std::vector<std::string>& paths, const LoadOptions& options, unsigned jobs,
              const LaunchedRank& self, RankLink* link)
      : paths_(paths), options_(options), jobs_(jobs), self_(self), link_(*link) {
    StableHash hash;
    for (const std::string& path : paths) hash.add(path);
    part_.list = hash.hex();
  }

  std::optional<LoadedReports> merge() {
    read_share_of({self_.rank}, jobs_ != 0 ? jobs_ : threads_of_rank(self_));
    for (const unsigned below : ranks_below(self_.rank, self_.size)) collect(below);
    if (self_.rank != 0) {
      if (part_.files.merged != 0) part_.merged = merged_part(merger_.finish_part());
      link_.give(part_text(part_), rank_above(self_.rank));
      return std::nullopt;
    }
    read_missing();
    std::sort(part_.files.errors.begin(), part_.files.errors.end());
    LoadedReports loaded;
    finish_job(part_.files, paths_, options_, &merger_, &loaded);
    std::vector<Report*> reports;
    for (Report& report : loaded.reports) reports.push_back(&report);
    join_sharings(reports);
    return loaded;
  }

 private:
  // Each rank takes every n-th file, because neighbours are often of one size.
  void read_share_of(const std::vector<unsigned>& ranks, unsigned jobs) {
    const std::set<unsigned> wanted(ranks.begin(), ranks.end());
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      if (wanted.count(static_cast<unsigned>(i % self_.size)) != 0) indices.push_back(i);
    }
    const log::StepTime time("share of " + ranks_text(ranks));
    add(merge_files(paths_, indices, options_, jobs, &merger_), ranks);
  }

  void add(const PartOfJob& files, const std::vector<unsigned>& ranks) {
    part_.files.merged += files.merged;
    part_.files.errors.insert(part_.files.errors.end(), files.errors.begin(), files.errors.end());
    part_.ranks.insert(part_.ranks.end(), ranks.begin(), ranks.end());
  }

  // The part of the rank; where it has none, those of the ranks that pass theirs on through it.
  void collect(unsigned rank) {
    std::string problem;
    std::optional<std::string> text = link_.take(rank, &problem);
    if (text && take_in(std::move(*text), rank, &problem)) return;
    log::warning("rank " + std::to_string(rank) + " of " + std::to_string(self_.size) + " gave no part: " + problem);
    for (const unsigned below : ranks_below(rank, self_.size)) collect(below);
  }

  bool take_in(std::string text, unsigned rank, std::string* problem) {
    const log::StepTime time("part of rank " + std::to_string(rank) + ", " + format_bytes(text.size()));
    try {
      const std::string name = "the part of rank " + std::to_string(rank);
      RankPart part = read_part(text, name);
      text = std::string();
      if (part.list != part_.list) {
        *problem = "it was given other dumps, or sees other files in their folder";
        return false;
      }
      if (!part.merged.empty()) merger_.add(read_merged_part(part.merged, name));
      add(part.files, part.ranks);
      return true;
    } catch (const FileError& error) {
      *problem = error.what();
      return false;
    }
  }

  void read_missing() {
    const std::set<unsigned> present(part_.ranks.begin(), part_.ranks.end());
    std::vector<unsigned> missing;
    for (unsigned rank = 0; rank < self_.size && rank < paths_.size(); ++rank) {
      if (present.count(rank) == 0) missing.push_back(rank);
    }
    if (missing.empty()) return;
    log::warning("rank 0 reads the dumps of " + ranks_text(missing) + " itself");
    read_share_of(missing, jobs_);
  }

  const std::vector<std::string>& paths_;
  const LoadOptions& options_;
  const unsigned jobs_;
  const LaunchedRank& self_;
  RankLink& link_;
  ReportMerger merger_;
  RankPart part_;  // without `merged`, until the part is given
};

}  // namespace

std::optional<LoadedReports> merge_on_ranks(const std::vector<std::string>& paths, const LoadOptions& given,
                                            unsigned jobs, const LaunchedRank& self, RankLink* link) {
  LoadOptions options = given;
  add_last_starts(paths, &options);
  return RankOfMerge(paths, options, jobs, self, link).merge();
}

std::vector<unsigned> ranks_below(unsigned rank, unsigned size) {
  std::vector<unsigned> below;
  for (unsigned distance = 1; (rank & distance) == 0 && distance < size - rank; distance *= 2)
    below.push_back(rank + distance);
  return below;
}

unsigned rank_above(unsigned rank) { return rank & (rank - 1); }

}  // namespace culprit::report
