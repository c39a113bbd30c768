// Live tensors inside the caches of frameworks: a tensor that is kept is no leak of the allocator, but perhaps one of
// the program.
#include <algorithm>
#include <utility>

#include "report/base/words.h"
#include "report/findings/cache_words.h"
#include "report/findings/finding.h"
#include "report/model/cache_inside.h"
#include "report/model/frames.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

// In the first line: memory with no known keeper, from this part of all on.
constexpr std::uint64_t kNotKnownShare = 10;

constexpr std::size_t kListedKeepers = 8;

// That no view tells what lives in the caches of a process, or of some of a job's: "not known in 2 processes: ...".
std::string not_known_text(const Report& report) {
  if (report.caches_unseen == 0 || report.python_unseen.empty()) return {};
  const std::string where =
      report.job.empty() ? std::string() : " in " + plural(report.caches_unseen, "process", "processes");
  return "not known" + where + ": " + printable(report.python_unseen);
}

void collect_live_in_caches(const Report& report, std::vector<Finding>* list) {
  const std::string not_known = not_known_text(report);
  if (report.live_cached_bytes == 0) {
    if (!not_known.empty()) add_finding(FindingKind::kLiveInCaches, not_known, list);
    return;
  }
  const bool counted = std::all_of(report.caches_inside.begin(), report.caches_inside.end(),
                                   [](const CacheInside& inside) { return inside.uncounted_bytes == 0; });
  std::string text = (counted ? "" : "at least ") + format_bytes(report.live_cached_bytes);
  const CacheInside::Place* largest = nullptr;
  for (const CacheInside& inside : report.caches_inside) {
    if (!inside.largest.empty() && (largest == nullptr || inside.largest.front().bytes > largest->bytes))
      largest = &inside.largest.front();
  }
  const Keeper* keeper = nullptr;
  for (const CacheInside& inside : report.caches_inside) {
    const Keeper* one = most_suspicious(inside.kept);
    if (one != nullptr && (keeper == nullptr || one->bytes > keeper->bytes)) keeper = one;
  }
  if (keeper != nullptr) {
    text += ", " +
            (keeper->bytes < report.live_cached_bytes ? format_bytes(keeper->bytes) + " of it " : std::string()) +
            "kept by " + keeper->path;
  } else if (largest != nullptr) {
    text += ", ";
    if (largest->bytes < report.live_cached_bytes) text += format_bytes(largest->bytes) + " in ";
    text += plural(largest->count, "tensor", "tensors");
    if (!largest->file.empty())
      text += " at " + std::string(base_name(largest->file)) + ":" + std::to_string(largest->line);
    if (!largest->held_by.empty()) text += ", held by " + largest->held_by;
  }
  // A keeper that was not found is no absence of one.
  for (const CacheInside& inside : report.caches_inside) {
    for (const Keeper& one : inside.kept) {
      if (one.kind == KeeperKind::kNotKnown && one.bytes >= report.live_cached_bytes / kNotKnownShare)
        text += (keeper == nullptr && largest == nullptr ? ", " : "; ") + format_bytes(one.bytes) +
                " kept by what is not known: " + one.path;
    }
  }
  if (!not_known.empty()) text += "; " + not_known;
  Finding& finding = add_finding(FindingKind::kLiveInCaches, text, list);
  finding.bytes = report.live_cached_bytes;
  if (keeper != nullptr) finding.hint = keeper->hint;
  finding.facts_drawn = kInText;  // with the caches
  for (const CacheInside& inside : report.caches_inside) {
    for (std::string& line : keeper_lines(inside, kListedKeepers)) finding.facts.push_back(std::move(line));
  }
}

}  // namespace

const CollectFindings kLiveInCachesFinding = collect_live_in_caches;

}  // namespace culprit::report
