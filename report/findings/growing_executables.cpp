// A line that makes executable graphs again and again and keeps them. judge/growing_graphs.h decides which.
#include <algorithm>

#include "report/base/words.h"
#include "report/findings/finding.h"
#include "report/findings/place_words.h"
#include "report/findings/process_words.h"
#include "report/judge/growing_graphs.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

// The growth of some calls on the line's device is not known.
bool has_unmeasured(const Report& report, const ExecutableLine& line) {
  return std::any_of(report.balances.begin(), report.balances.end(), [&](const Balance& balance) {
    return balance.process == line.process && balance.device == line.device && balance.unmeasured != 0;
  });
}

std::uint64_t bytes_of(const ExecutableLine& line) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(line.bytes, 0));
}

// "40 kept, made at serve.cpp:31 (39 of 40 instantiations made the driver grow, 546 MiB)".
std::string line_text(const Report& report, const ExecutableLine& line) {
  std::string text = line.live >= line.most_live ? std::to_string(line.live) + " kept"
                                                 : "up to " + std::to_string(line.most_live) + " kept at once";
  const std::string maker = maker_of(*line.stack);
  if (!maker.empty()) text += ", made at " + maker;
  return text + " (" + (has_unmeasured(report, line) ? "at least " : "") +
         std::to_string(std::min(line.grown, line.made)) + " of " +
         plural(line.made, "instantiation", "instantiations") + " made the driver grow, " +
         format_bytes(bytes_of(line)) + ")";
}

void collect_growing_executables(const Report& report, std::vector<Finding>* list) {
  for (const ExecutableLine& line : executable_lines(report)) {
    if (!line.growing) continue;
    Finding& finding = add_finding(FindingKind::kGrowingExecutables,
                                   whose_prefix(report, line.process) + line_text(report, line), list);
    finding.bytes = bytes_of(line);
    finding.count = line.live;
    finding.device = line.device;
    if (!report.job.empty()) finding.processes = {line.process};
    finding.add_place("made", line.stack);
    finding.hint = kExecutableAdvice;
  }
}

}  // namespace

const CollectFindings kGrowingExecutablesFinding = collect_growing_executables;

}  // namespace culprit::report
