// The frameworks' account of their caches at the last moment at which memory ran out, unless a failure has it.
#include <cstddef>
#include <utility>

#include "report/findings/cache_words.h"
#include "report/findings/finding.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostKeepers = 3;

void collect_ran_out(const Report& report, std::vector<Finding>* list) {
  if (!report.breakdowns.empty() && !report.breakdowns.front().caches.empty()) return;
  for (const CacheInside& inside : report.ran_out) {
    Finding& finding = add_finding(FindingKind::kRanOut, inside.pool + ": " + tensors_text(inside), list);
    finding.bytes = inside.live_bytes;
    finding.facts = live_places(inside);
    for (std::string& line : keeper_lines(inside, kMostKeepers)) finding.facts.push_back(std::move(line));
    finding.hint = inside.hint;
  }
}

}  // namespace

const CollectFindings kRanOutFinding = collect_ran_out;

}  // namespace culprit::report
