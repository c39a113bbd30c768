// A context on a device where its process has nothing else, or leftovers of one stretch of work.
#include "report/base/words.h"
#include "report/findings/finding.h"
#include "report/findings/place_words.h"
#include "report/findings/process_words.h"
#include "report/model/frames.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr char kChoose[] = "call cudaSetDevice with the process's own GPU";
constexpr char kChooseInPython[] =
    "torch.cuda.set_device(local_rank); to load a checkpoint: torch.load(..., map_location=\"cpu\")";

std::string gpus(const std::vector<unsigned>& devices) {
  std::string text;
  for (const unsigned device : devices)
    text += (text.empty() ? (devices.size() == 1 ? "GPU " : "GPUs ") : ", ") + std::to_string(device);
  return text;
}

std::string context_text(const Report& report, const ContextInfo& context) {
  std::string text = whose(report, context.process) + " has a context on GPU " + std::to_string(context.device);
  const std::string maker = maker_of(*context.stack);
  if (!maker.empty()) text += ", made by " + maker;
  if (context.bytes != 0)
    text += ", " + std::string(context.others_included ? "at most " : "") + format_bytes(context.bytes);
  if (context.beside_others) text += ", of a size that is not known beside other processes";
  if (context.leftover_bytes == 0) return text + "; it allocates on " + gpus(context.allocates_on) + " only";
  text += (context.bytes == 0 ? ", with " : " and ") + format_bytes(context.leftover_bytes) + " left in it";
  if (context.bytes != 0) text += ", together " + format_bytes(context.bytes + context.leftover_bytes);
  return text + "; its work is then on " + gpus(context.allocates_on);
}

void collect_stray_context(const Report& report, std::vector<Finding>* list) {
  for (const ContextInfo& context : report.contexts) {
    if (!context.stray) continue;
    Finding& finding = add_finding(FindingKind::kStrayContext, context_text(report, context), list);
    finding.bytes = context.bytes + context.leftover_bytes;
    finding.device = context.device;
    if (!report.job.empty()) finding.processes = {context.process};
    finding.add_place("made", context.stack);
    finding.hint = "before that line: " + std::string(context.stack->has_python ? kChooseInPython : kChoose);
  }
}

}  // namespace

const CollectFindings kStrayContextFinding = collect_stray_context;

}  // namespace culprit::report
