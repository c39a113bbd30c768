#include "report/findings/failure_words.h"

#include "report/base/words.h"
#include "report/findings/process_words.h"
#include "report/judge/out_of_memory.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"

namespace culprit::report {

std::string gpu_of(const Breakdown& breakdown) {
  return breakdown.device ? "GPU " + std::to_string(*breakdown.device) : "the GPU";
}

std::string place_of_stack(const ResolvedStack& stack) {
  const Frame* frame = naming_frame(stack);
  return frame == nullptr ? "(stack not recorded)" : frame_text(*frame);
}

std::string failure_text(const Report& report, const Breakdown& breakdown) {
  std::string text = whose_prefix(report, breakdown.process) + printable(breakdown.api);
  text += breakdown.asked_bytes != 0 ? " asked for " + format_bytes(breakdown.asked_bytes) : " failed";
  text += " at " + place_of_stack(*breakdown.stack) + ", at " + format_time(breakdown.time_ns);
  if (breakdown.times > 1) text += ", the last of " + std::to_string(breakdown.times) + " times";
  text += "; ";
  if (breakdown.memory.total_bytes != 0)
    text += format_bytes(breakdown.memory.total_bytes - breakdown.memory.free_bytes) + " of " +
            format_bytes(breakdown.memory.total_bytes) + " of " + gpu_of(breakdown) + " in use, " +
            format_bytes(breakdown.memory.free_bytes) + " free, ";
  return text + format_bytes(breakdown.live_bytes) + " by this process";
}

std::string idle_text(const IdleMemory& idle) {
  std::string text = format_bytes(idle.bytes) + " " + (idle.cache != nullptr ? "in the " : "") + idle.name;
  if (idle.cache == nullptr) return text;
  const char* separator = ": ";
  for (const CacheInside::Idle& part : idle.cache->idle) {
    text += separator + format_bytes(part.bytes) + " " + idle_reason_words(part.why);
    if (part.largest != 0) text += ", the largest of " + format_bytes(part.largest);
    separator = " · ";
  }
  return text;
}

std::string charges_text(const Breakdown& breakdown, const GpuCharges& charges, std::size_t most) {
  if (!charges.problem.empty()) return "not known: " + printable(charges.problem);
  const std::uint64_t after = charges.asked_ns > breakdown.time_ns ? charges.asked_ns - breakdown.time_ns : 0;
  std::string text = "NVML, " + format_time(after) + " after the failure" +
                     (charges.after_end ? " and after the end of this process: " : ": ");
  std::size_t shown = 0;
  for (const ChargedProcess& process : charges.others) {
    if (shown == most) break;
    text += (shown++ == 0 ? "" : " · ") + (process.bytes_known ? format_bytes(process.bytes) : "memory") + " by " +
            std::to_string(process.pid) + (process.name.empty() ? "" : " (" + printable(process.name) + ")");
  }
  const std::uint64_t rest = charges.others.size() - shown + charges.left_out;
  if (rest != 0) text += " · and " + std::to_string(rest) + " more";
  if (charges.others.empty()) text += "no other process";
  if (charges.own_known) text += "; " + format_bytes(charges.own_bytes) + " by this process";
  if (charges.foreign_numbers)
    text += "; the numbers are of another PID namespace, and this process may be one of them";
  return text;
}

void collect_failed(const Report& report, bool allocates, FindingKind kind, std::vector<Finding>* list) {
  for (const FailedAllocation& failed : report.failed_allocations) {
    if ((failed.bytes != 0) != allocates) continue;
    Finding& finding = add_finding(kind, failed_sentence(failed), list);
    finding.title = failed_title(failed);
    finding.count = failed.count;
    finding.asked_for = failed.injected;
    if (failed.injected) finding.severity = Severity::kNote;
    finding.add_place(allocates ? "asked for" : "called", failed.stack);
  }
}

}  // namespace culprit::report
