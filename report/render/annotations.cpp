#include "report/render/annotations.h"

#include "report/base/words.h"
#include "report/causes/evidence_functions.h"
#include "report/causes/group_words.h"
#include "report/cuda/kinds.h"
#include "report/model/frame_text.h"
#include "report/model/memory_words.h"
#include "report/model/names.h"
#include "report/model/not_recorded.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/model/summary.h"
#include "report/render/source_place.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

// Frames of one stack that are named: the rest is far from the reason.
constexpr std::size_t kNamedFrames = 8;

using Folders = std::vector<std::string>;

Annotation annotation_of(const Folders& folders, const Frame* frame, const std::string& text) {
  Annotation one;
  one.text = printable(text);
  if (frame == nullptr || frame->file.empty()) return one;
  one.file = printable(path_below(folders, frame->file));
  one.line = frame->line;
  return one;
}

// The frames of the program, innermost first.
void add_stack(const Folders& folders, const ResolvedStack& stack, const std::string& innermost,
               std::vector<Annotation>* list) {
  std::size_t named = 0;
  for (const Frame* frame : stack.frames) {
    if (!is_program_frame(*frame)) continue;
    std::string text = (named == 0 ? innermost + " in " : "called from ") + frame_function(*frame);
    if (frame->file.empty() && frame->module != nullptr) text += " of " + frame->module->name;
    list->push_back(annotation_of(folders, frame, text));
    if (++named == kNamedFrames) return;
  }
}

void add_place(const Folders& folders, const ResolvedStack* stack, const std::string& text,
               std::vector<Annotation>* list) {
  const Frame* frame = place_of(stack);
  if (!text.empty() && frame != nullptr) list->push_back(annotation_of(folders, frame, text));
}

Finding finding_of(const Folders& folders, const Group& group, const MemoryWords& words,
                   const std::string& not_searched) {
  Finding finding;
  const bool known = group.comparison == Comparison::kKnown;
  finding.level = known ? Finding::Level::kKnownLeak : Finding::Level::kLeak;
  finding.title = format_bytes(group.bytes) + " " + words.fate;
  const std::string state = known                                    ? "in the baseline: "
                            : group.comparison == Comparison::kNew   ? "new: "
                            : group.comparison == Comparison::kGrown ? "grown: "
                                                                     : "";
  const std::string text =
      state + format_bytes(group.bytes) + " in " + plural(group.count, "allocation", "allocations") + " (" + group.api +
      ", " + kind_name(group.kind) + ") " + words.fate + ": " + cause_name(group.cause) + " [" + group.id + "]";
  finding.place = annotation_of(folders, place_below(folders, group.stack), text);
  add_stack(folders, *group.stack, "allocated", &finding.more);
  for (const Evidence& evidence : group.evidence) {
    const std::string event = functions_of(evidence.type).place(evidence);
    // Without a stack, too: the event says why the memory leaked.
    if (!event.empty()) finding.more.push_back(annotation_of(folders, place_of(evidence.stack), event));
    add_place(folders, evidence.caught, "caught here", &finding.more);
  }
  finding.hint = printable(hint_for(group, words.may_be_freed));
  if (!not_searched.empty()) finding.hint += (finding.hint.empty() ? "" : "; ") + not_searched;
  return finding;
}

Finding finding_of(const Folders& folders, const ErrorGroup& error) {
  Finding finding;
  finding.level = Finding::Level::kError;
  finding.title = error_type_name(error.type);
  const std::string text = std::string(error_type_name(error.type)) + ": " + error.api + " returned " +
                           error.code_name + ", " + plural(error.count, "time", "times");
  finding.place = annotation_of(folders, place_below(folders, error.stack), text);
  add_stack(folders, *error.stack, "called", &finding.more);
  add_place(folders, error.allocation_stack, "allocated here", &finding.more);
  add_place(folders, error.free_stack, "freed first here", &finding.more);
  return finding;
}

}  // namespace

std::vector<Finding> findings_of(const Report& report, const std::vector<std::string>& folders,
                                 const RenderOptions& options) {
  std::vector<Finding> findings;
  for (const std::string& text : reasons_not_known(report)) {
    Finding finding;
    finding.level = Finding::Level::kNotKnown;
    finding.title = "not known whether all memory was freed";
    finding.place.text = "not known whether all memory was freed: " + printable(text);
    findings.push_back(std::move(finding));
  }
  for (const Group& group : report.leaks) {
    if (counts_as_leak(group, options.strict))
      findings.push_back(finding_of(folders, group, words_of(report, group.cause), not_searched_text(report, group)));
  }
  for (const ErrorGroup& error : report.errors) findings.push_back(finding_of(folders, error));
  return findings;
}

}  // namespace culprit::report
