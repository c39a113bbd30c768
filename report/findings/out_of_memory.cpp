// The last failure of each process with out of memory, explained (judge/out_of_memory.h).
#include "report/judge/out_of_memory.h"
#include "report/judge/explainer.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/findings/failure_words.h"
#include "report/findings/finding.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostLines = 5;

// "12.0 MiB in 3 allocations of train.py:4  step".
std::string holder_text(const HolderLine& line) {
  const bool tensors = line.what == LineOf::kTensors;
  std::string text = format_bytes(line.bytes);
  if (line.count != 0)
    text += " in " + plural(line.count, tensors ? "tensor" : "allocation", tensors ? "tensors" : "allocations");
  return text + " of " + line_place(line);
}

void add_facts(const OutOfMemory& failure, Finding* finding) {
  for (std::size_t i = 0; i < std::min(failure.lines.size(), kMostLines); ++i)
    finding->facts.push_back(holder_text(failure.lines[i]));
  for (const IdleMemory& idle : failure.idle) finding->facts.push_back("idle: " + idle_text(idle));
  for (const GpuCharges& charges : failure.breakdown->charges)
    finding->facts.push_back("other processes: " + charges_text(*failure.breakdown, charges, kMostLines));
}

void collect_out_of_memory(const Report& report, std::vector<Finding>* list) {
  const Explainer explainer(report);
  const Breakdown* before = nullptr;
  for (const Breakdown& breakdown : report.breakdowns) {
    if (!breakdown.out_of_memory) continue;
    // The last failure of each process comes first.
    const bool last = before == nullptr || before->process != breakdown.process;
    before = &breakdown;
    if (!last) continue;
    Finding& finding = add_finding(FindingKind::kOutOfMemory, failure_text(report, breakdown), list);
    finding.bytes = breakdown.asked_bytes;
    finding.count = breakdown.times;
    finding.device = breakdown.device;
    if (!report.job.empty()) finding.processes = {breakdown.process};
    finding.add_place("asked for", breakdown.stack);
    const OutOfMemory failure = explainer.explain(breakdown);
    add_facts(failure, &finding);
    finding.hint = failure.would_fit;
  }
}

}  // namespace

const CollectFindings kOutOfMemoryFinding = collect_out_of_memory;

}  // namespace culprit::report
