#include "report/render/annotations.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/causes/evidence_functions.h"
#include "report/causes/group_words.h"
#include "report/cuda/kinds.h"
#include "report/findings/finding.h"
#include "report/model/frame_text.h"
#include "report/model/memory_words.h"
#include "report/model/names.h"
#include "report/model/not_recorded.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"
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

Message message_of(const Folders& folders, const Group& group, const MemoryWords& words,
                   const std::string& not_searched) {
  Message message;
  const bool known = group.comparison == Comparison::kKnown;
  message.level = known ? Message::Level::kKnownLeak : Message::Level::kLeak;
  message.title = format_bytes(group.bytes) + " " + words.fate;
  const std::string state = known                                    ? "in the baseline: "
                            : group.comparison == Comparison::kNew   ? "new: "
                            : group.comparison == Comparison::kGrown ? "grown: "
                                                                     : "";
  const std::string text =
      state + format_bytes(group.bytes) + " in " + plural(group.count, "allocation", "allocations") + " (" + group.api +
      ", " + kind_name(group.kind) + ") " + words.fate + ": " + cause_name(group.cause) + " [" + group.id + "]";
  message.place = annotation_of(folders, place_below(folders, group.stack), text);
  add_stack(folders, *group.stack, "allocated", &message.more);
  for (const Evidence& evidence : group.evidence) {
    const std::string event = functions_of(evidence.type).place(evidence);
    // Without a stack, too: the event says why the memory leaked.
    if (!event.empty()) message.more.push_back(annotation_of(folders, place_of(evidence.stack), event));
    add_place(folders, evidence.caught, "caught here", &message.more);
  }
  message.hint = printable(hint_for(group, words.may_be_freed));
  if (!not_searched.empty()) message.hint += (message.hint.empty() ? "" : "; ") + not_searched;
  return message;
}

Message message_of(const Folders& folders, const ErrorGroup& error) {
  Message message;
  message.level = Message::Level::kError;
  message.title = error_type_name(error.type);
  const std::string text = std::string(error_type_name(error.type)) + ": " + error.api + " returned " +
                           error.code_name + ", " + plural(error.count, "time", "times");
  message.place = annotation_of(folders, place_below(folders, error.stack), text);
  add_stack(folders, *error.stack, "called", &message.more);
  add_place(folders, error.allocation_stack, "allocated here", &message.more);
  add_place(folders, error.free_stack, "freed first here", &message.more);
  return message;
}

Message message_of(const Folders& folders, const Finding& finding) {
  Message message;
  message.level = finding.severity == Severity::kNote ? Message::Level::kNote : Message::Level::kWarning;
  message.title = finding.title;
  const Frame* frame = finding.places.empty() ? nullptr : place_below(folders, finding.places.front().stack);
  message.place = annotation_of(folders, frame, sentence_of(finding));
  for (const std::string& line : lines_below(finding, false))
    message.more.push_back(annotation_of(folders, nullptr, line));
  for (const FindingPlace& place : finding.places) add_stack(folders, *place.stack, place.label, &message.more);
  message.hint = finding.hint;
  return message;
}

}  // namespace

std::vector<Message> messages_of(const Report& report, const std::vector<std::string>& folders,
                                 const RenderOptions& options) {
  std::vector<Message> messages;
  for (const std::string& text : reasons_not_known(report)) {
    Message message;
    message.level = Message::Level::kNotKnown;
    message.title = "not known whether all memory was freed";
    message.place.text = "not known whether all memory was freed: " + printable(text);
    messages.push_back(std::move(message));
  }
  for (const Group& group : report.leaks) {
    if (counts_as_leak(group, options.strict))
      messages.push_back(message_of(folders, group, words_of(report, group.cause), not_searched_text(report, group)));
  }
  for (const ErrorGroup& error : report.errors) messages.push_back(message_of(folders, error));
  for (const Finding& finding : shown_findings(report, kNowhere)) messages.push_back(message_of(folders, finding));
  return messages;
}

bool need_verdict(const std::vector<Message>& messages) {
  return std::all_of(messages.begin(), messages.end(), [](const Message& message) {
    return message.level == Message::Level::kWarning || message.level == Message::Level::kNote;
  });
}

}  // namespace culprit::report
