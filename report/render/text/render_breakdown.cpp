// The holders of memory at one moment, as parts of the text report: at an allocation failure, and at the peak.
#include "report/render/text/render_breakdown.h"

#include <algorithm>
#include <vector>

#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/findings/failure_words.h"
#include "report/findings/process_words.h"
#include "report/judge/explainer.h"
#include "report/judge/out_of_memory.h"
#include "report/model/frame_text.h"
#include "report/model/peak_use.h"
#include "report/model/report.h"
#include "report/render/text/palette.h"
#include "report/render/text/render_balance.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

// Failures come before everything else, so they must leave room on the screen.
constexpr std::size_t kShownAtFailure = 5;
constexpr std::size_t kShownCallers = 2;  // of a line
constexpr std::size_t kShownFailed = 4;   // calls without a breakdown
// The number of processes of a job, unless all are asked for.
constexpr std::size_t kShownProcesses = 4;
// Less than this is a first context alone.
constexpr std::uint64_t kLargeContext = 1ULL << 30;

void print_entries(const Breakdown& breakdown, std::size_t most, std::ostream& out) {
  HiddenTotal rest;
  rest.groups = breakdown.other_stacks;
  rest.allocations = breakdown.other_count;
  rest.bytes = breakdown.other_bytes;
  std::size_t shown = 0;
  for (const BreakdownEntry& entry : breakdown.entries) {
    if (++shown > most) {
      ++rest.groups;
      rest.allocations += entry.count;
      rest.bytes += entry.bytes;
      continue;
    }
    out << "   " << padded_to_width(format_bytes(entry.bytes), 10)
        << padded_to_width(std::to_string(entry.count) + "x", 7) << printable(entry.api) << "  "
        << kind_name(entry.kind) << "  " << place_of_stack(*entry.stack) << "\n";
  }
  if (rest.groups != 0)
    out << "   " << padded_to_width(format_bytes(rest.bytes), 10)
        << padded_to_width(std::to_string(rest.allocations) + "x", 7) << "by "
        << plural(rest.groups, "other stack", "other stacks") << "\n";
}

// "12x     cudaMalloc  device  train.py:4  step".
void print_line(const HolderLine& line, std::ostream& out) {
  out << "   " << padded_to_width(format_bytes(line.bytes), 10)
      << padded_to_width(line.count == 0 ? "" : std::to_string(line.count) + "x", 7);
  if (line.what == LineOf::kTensors) {
    out << (line.count == 1 ? "tensor" : "tensors") << "  " << line.pool << "  " << line_place(line) << "\n";
    return;
  }
  out << printable(line.api) << "  " << kind_name(line.kind) << "  "
      << (line.what == LineOf::kSegments ? "for the " + line.pool + "  " : "") << line_place(line) << "\n";
  std::size_t shown = 0;
  for (const LineCaller& caller : line.callers) {
    if (shown++ == kShownCallers) break;
    out << "             " << padded_to_width(format_bytes(caller.bytes), 10)
        << padded_to_width(std::to_string(caller.count) + "x", 7) << "called from " << frame_text(*caller.frame)
        << "\n";
  }
}

void print_lines(const OutOfMemory& failure, std::size_t most, std::ostream& out) {
  const Breakdown& breakdown = *failure.breakdown;
  HiddenTotal rest;
  rest.groups = breakdown.other_stacks;
  rest.allocations = breakdown.other_count;
  rest.bytes = breakdown.other_bytes;
  for (std::size_t i = 0; i < failure.lines.size(); ++i) {
    const HolderLine& line = failure.lines[i];
    if (i < most) {
      print_line(line, out);
      continue;
    }
    ++rest.groups;
    rest.allocations += line.count;
    rest.bytes += line.bytes;
  }
  if (rest.groups != 0)
    out << "   " << padded_to_width(format_bytes(rest.bytes), 10)
        << padded_to_width(std::to_string(rest.allocations) + "x", 7) << "by "
        << plural(rest.groups, "other place", "other places") << "\n";
}

// Failed calls that no breakdown has shown yet.
using FailedCalls = std::vector<const FailedAllocation*>;

// Prints the facts that its calls add to a breakdown, and takes these calls from the list.
void print_failed_of(const Breakdown& breakdown, FailedCalls* failed, std::ostream& out) {
  const auto shown = std::stable_partition(failed->begin(), failed->end(),
                                           [&](const FailedAllocation* one) { return !is_shown_by(*one, breakdown); });
  for (auto one = shown; one != failed->end(); ++one) {
    const std::string text = beside_breakdown_text(**one, breakdown);
    if (!text.empty()) out << "failed  " << text << "\n";
  }
  failed->erase(shown, failed->end());
}

void print_failed(const FailedCalls& failed, const RenderOptions& options, std::ostream& out) {
  const Palette palette(options.colours);
  const std::size_t shown = options.all ? failed.size() : std::min(failed.size(), kShownFailed);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string text = failed_allocation_text(*failed[i]);
    out << (failed[i]->injected ? palette.warn(text) : palette.bad(text)) << "\n";
  }
  if (shown < failed.size())
    out << "and " << plural(failed.size() - shown, "failing call", "failing calls") << " more: --all\n";
}

void print_failure(const Report& report, const Explainer& explainer, const Breakdown& breakdown,
                   const RenderOptions& options, FailedCalls* failed, std::ostream& out) {
  const Palette palette(options.colours);
  const OutOfMemory failure = explainer.explain(breakdown);
  out << palette.bad("OUT OF MEMORY") << ": " << failure_text(report, breakdown)
      << (breakdown.live_bytes == 0 ? "\n" : ":\n");
  print_lines(failure, options.all ? failure.lines.size() : kShownAtFailure, out);
  for (const CacheInside& cache : breakdown.caches) {
    if (!cache.hint.empty()) out << "lines   " << cache.hint << "\n";
  }
  if (failure.balance != nullptr) render_balance_line(*failure.balance, "in use  ", out);
  for (const IdleMemory& idle : failure.idle) out << "idle    " << idle_text(idle) << "\n";
  const bool told = !breakdown.charges.empty() && breakdown.charges.front().problem.empty();
  for (const GpuCharges& charges : breakdown.charges)
    out << "others  " << charges_text(breakdown, charges, options.all ? charges.others.size() : kShownAtFailure)
        << "\n";
  if (failure.others_at_most > kLargeContext && !told)
    out << "others  other processes had at most " << format_bytes(failure.others_at_most)
        << " of it, with the first context of this one; `culprit doctor` lists them\n";
  print_failed_of(breakdown, failed, out);
  out << palette.title(failure.would_fit) << "\n";
}

// The most bytes that the process had on the device, if that is more than the breakdown shows; else 0.
std::uint64_t higher_use(const Report& report, const Breakdown& breakdown) {
  if (!report.job.empty() || !breakdown.device) return 0;
  for (const DeviceInfo& device : report.devices) {
    const std::uint64_t bytes = peak_use(device).recorded_bytes;
    if (device.ordinal == *breakdown.device && bytes > breakdown.live_bytes) return bytes;
  }
  return 0;
}

void print_peak(const Report& report, const Breakdown& breakdown, const RenderOptions& options, std::ostream& out) {
  const Palette palette(options.colours);
  out << "\n"
      << palette.title("PEAK") << " of " << gpu_of(breakdown) << ": " << whose_prefix(report, breakdown.process)
      << palette.title(format_bytes(breakdown.live_bytes)) << " in "
      << plural(breakdown.live_count, "allocation", "allocations") << " at " << format_time(breakdown.time_ns);
  if (const std::uint64_t bytes = higher_use(report, breakdown))
    out << "; up to " << format_bytes(bytes) << " were allocated, of which there is no breakdown";
  out << "\n";
  print_entries(breakdown, options.all ? breakdown.entries.size() : kShownGroups, out);
}

}  // namespace

void render_failures(const Report& report, const RenderOptions& options, std::ostream& out) {
  const Explainer explainer(report);
  FailedCalls failed;
  for (const FailedAllocation& one : report.failed_allocations) failed.push_back(&one);
  const Breakdown* before = nullptr;
  std::size_t processes = 0;
  for (const Breakdown& breakdown : report.breakdowns) {
    if (!breakdown.out_of_memory) continue;
    // True for the last failure of each process, which comes first.
    const bool first = before == nullptr || before->process != breakdown.process;
    before = &breakdown;
    if (!first && !options.all) continue;
    processes += first ? 1 : 0;
    if (options.all || processes <= kShownProcesses) print_failure(report, explainer, breakdown, options, &failed, out);
  }
  if (!options.all && processes > kShownProcesses)
    out << "and " << plural(processes - kShownProcesses, "process", "processes") << " more ran out of memory: --all\n";
  print_failed(failed, options, out);
}

void render_freed_at_end(const Report& report, const RenderOptions& options, std::ostream& out) {
  for (const Breakdown& breakdown : report.freed_at_end) {
    out << "\n"
        << Palette(options.colours).title("FREED ONLY WHILE PYTHON ENDED") << " "
        << whose_prefix(report, breakdown.process) << format_bytes(breakdown.live_bytes) << " in "
        << plural(breakdown.live_count, "allocation", "allocations") << " on " << gpu_of(breakdown)
        << " (not counted; --fail-on freed-at-end)\n";
    print_entries(breakdown, breakdown.entries.size(), out);
  }
}

void render_peaks(const Report& report, const RenderOptions& options, std::ostream& out) {
  std::vector<const Breakdown*> peaks;
  for (const Breakdown& breakdown : report.breakdowns) {
    if (!breakdown.out_of_memory) peaks.push_back(&breakdown);
  }
  // In a job, sorted by size; the peaks of one process stay sorted by device.
  if (!report.job.empty()) {
    std::stable_sort(peaks.begin(), peaks.end(), [](const Breakdown* left, const Breakdown* right) {
      return left->live_bytes > right->live_bytes;
    });
  }
  const std::size_t shown = options.all || report.job.empty() ? peaks.size() : std::min(peaks.size(), kShownProcesses);
  for (std::size_t i = 0; i < shown; ++i) print_peak(report, *peaks[i], options, out);
  if (shown < peaks.size())
    out << "\nand " << plural(peaks.size() - shown, "lower peak", "lower peaks") << " of other processes: --all\n";
  if (!peaks.empty()) {
    out << "\napproximate: a breakdown is made when use has grown by a sixteenth since the last one, and 1 MiB; up to "
           "4 MiB of\neach thread may be missing\n";
  } else {
    out << "\nno breakdown of the peak: nothing was live on a GPU, or recording stopped before\n";
  }
}

}  // namespace culprit::report
