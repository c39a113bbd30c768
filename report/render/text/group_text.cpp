#include "report/render/text/group_text.h"

#include "report/base/words.h"
#include "report/causes/group_words.h"
#include "report/cuda/kinds.h"
#include "report/merge/spread.h"
#include "report/model/memory_words.h"
#include "report/model/pool.h"
#include "report/model/report.h"
#include "report/render/text/evidence_text.h"
#include "report/render/text/render_sharing.h"
#include "report/select/render_options.h"

namespace culprit::report {

using namespace format;

std::string device_text(const std::optional<unsigned>& device) {
  return device ? "GPU " + std::to_string(*device) : "host";
}

namespace {

constexpr std::size_t kShownMarks = 3;
constexpr std::size_t kShownHeaps = 4;

// Host memory belongs to no GPU, even if a GPU's context was current when it was pinned.
std::string device_text(Kind kind, const std::optional<unsigned>& device) {
  return kind_class(kind) == KindClass::kHostMemory ? "host" : report::device_text(device);
}

std::string thread_text(const ThreadInfo& thread) {
  return std::to_string(thread.tid) + " \"" + printable(thread.name) + "\"" + (thread.ended ? ", ended" : "");
}

// ""main" in 4 processes; "worker" in 3 processes, 12 threads, all ended"
std::string thread_sums_text(const std::vector<ThreadSum>& sums) {
  constexpr std::size_t kShownNames = 3;
  std::string text;
  for (std::size_t i = 0; i < sums.size() && i < kShownNames; ++i) {
    const ThreadSum& sum = sums[i];
    text += (i == 0 ? "\"" : "; \"") + printable(sum.name) + "\" in " + plural(sum.processes, "process", "processes");
    if (sum.threads != sum.processes) text += ", " + plural(sum.threads, "thread", "threads");
    if (sum.ended != 0) text += sum.ended == sum.threads ? ", all ended" : ", " + std::to_string(sum.ended) + " ended";
  }
  if (sums.size() > kShownNames) text += "; and " + std::to_string(sums.size() - kShownNames) + " more names";
  return text;
}

// Whether the stack is in a library without debug information. The library's frames say little, so the place that
// called it comes first.
bool is_foreign(const ResolvedStack& stack) {
  if (stack.has_python || stack.caller == nullptr || stack.caller->module == nullptr) return false;
  const Module& module = *stack.caller->module;
  return !module.executable && stack.caller->file.empty() && module.name.find(".so") != std::string::npos;
}

}  // namespace

std::string device_text(const Group& group) {
  if (group.devices.size() < 2 || kind_class(group.kind) == KindClass::kHostMemory)
    return device_text(group.kind, group.device);
  return std::to_string(group.devices.size()) + " GPUs";
}

std::string GroupText::cause_text(const Group& group) const {
  std::string text = title_of(report_, group.cause);
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return group.cause == Cause::kCached ? text + " by the " + group.pool->name : text;
}

void GroupText::print(const Group& group, std::size_t number) {
  const bool foreign = is_foreign(*group.stack);
  std::string cause = cause_text(group);
  if (!group.library.empty()) {
    cause += ", by " + group.library;
  } else if (foreign) {
    cause += ", in a library";
  }
  if (group.comparison == Comparison::kNew) cause += ", NEW";
  if (group.comparison == Comparison::kGrown)
    cause += ", GROWN from " + format_bytes(group.baseline_bytes) + " in " + std::to_string(group.baseline_count) + "x";
  out_ << "\n"
       << padded_to_width(std::to_string(number), 3) << palette_.title(format_bytes(group.bytes + group.region_bytes))
       << "  " << group.count << "x  " << printable(group.api) << "  " << kind_name(group.kind) << ", "
       << device_text(group) << "   " << palette_.warn(cause) << "   " << palette_.faint(group.id) << "\n";
  if (foreign) {
    print_foreign_stack(*group.stack);
  } else {
    fields_.mixed_stack("allocated", group.stack->frames);
  }
  if (group.stack->merged) {
    fields_.field("", "... several stacks in one: they found no room (CULPRIT_MAX_DUMP)");
  } else if (group.stack->truncated) {
    fields_.field("", "... deeper than was recorded (--depth)");
  }
  for (const Evidence& evidence : group.evidence) print_evidence(group, evidence, &fields_);
  if (group.kind == Kind::kVmmPhysical) {
    fields_.field("VMM", plural(group.handle_references, "handle", "handles") + " not released, mapped at " +
                             plural(group.mappings, "place", "places"));
  }
  print_regions(group);
  for (const std::string& line : exporters_of(report_, group)) fields_.field("shared", line);
  const std::string history = history_text(group);
  if (!history.empty()) fields_.field("history", history);
  print_marks(group);
  if (group.shares.empty()) {
    print_threads(group);
  } else {
    print_spread(group);
  }
  const std::string hint = hint_for(group, words_of(report_, group.cause).may_be_freed);
  if (!hint.empty()) fields_.field("hint", hint);
}

void GroupText::print_foreign_stack(const ResolvedStack& stack) {
  const Module& module = *stack.caller->module;
  std::string about;
  if (!module.build_id.empty()) about = "build ID " + cut_to_width(module.build_id, 12);
  if (module.state == ModuleState::kFound && !module.has_debug_info) {
    about += about.empty() ? "no debug info" : ", no debug info";
  }
  fields_.field("library", printable(module.name) + (about.empty() ? "" : " (" + about + ")"));
  std::size_t inside = 0;
  while (inside < stack.frames.size() && stack.frames[inside]->module != &module) ++inside;
  std::size_t outside = inside;
  while (outside < stack.frames.size() && stack.frames[outside]->module == &module) ++outside;
  const auto middle = stack.frames.begin() + static_cast<std::ptrdiff_t>(outside);
  fields_.stack("called at", {middle, stack.frames.end()}, false);
  fields_.stack("allocated", {stack.frames.begin(), middle});
}

void GroupText::print_regions(const Group& group) {
  if (!group.outside.api.empty()) {
    fields_.field("inside", format_bytes(group.outside.bytes) + " of " + printable(group.outside.api) +
                                (group.outside.place.empty() ? "" : " at " + printable(group.outside.place)) +
                                ", which has the bytes");
  }
  const std::string names = names_text(group.names, group.count);
  if (!names.empty()) fields_.field("named", names);
  for (std::size_t i = 0; i < group.heaps.size() && i < kShownHeaps; ++i)
    fields_.field(i == 0 ? "regions" : "", heap_text(group.heaps[i]));
  if (group.heaps.size() > kShownHeaps)
    fields_.field("", "and " + std::to_string(group.heaps.size() - kShownHeaps) + " more heaps");
  const std::string region_names = names_text(group.region_names, 1);
  if (!region_names.empty()) fields_.field("", "named " + region_names);
}

void GroupText::print_marks(const Group& group) {
  std::string text;
  std::size_t shown = 0;
  for (const MarkShare& share : group.marks) {
    if (++shown > kShownMarks) break;
    text += (text.empty() ? "" : "; ") + printable(mark_text(share));
    if (share.count != group.count)
      text += " (" + format_bytes(share.bytes) + ", " + std::to_string(share.count) + "x)";
  }
  if (group.marks.size() > kShownMarks) text += "; and " + std::to_string(group.marks.size() - kShownMarks) + " more";
  if (!text.empty()) fields_.field("mark", text);
}

void GroupText::print_threads(const Group& group) {
  std::string text;
  std::size_t shown = 0;
  for (const ThreadInfo& thread : group.threads) {
    if (++shown > 3) break;
    text += (text.empty() ? "" : "; ") + thread_text(thread);
  }
  if (group.threads.size() > 3) text += "; and more";
  if (!text.empty()) text += "; ";
  text += group.first_ns == group.last_ns
              ? "allocated at " + format_time(group.first_ns)
              : "allocated from " + format_time(group.first_ns) + " to " + format_time(group.last_ns);
  fields_.field("thread", text);
}

void GroupText::print_spread(const Group& group) {
  const SpreadText text = spread_text(group, report_.job);
  fields_.field("spread", text.line);
  if (!text.odd.empty()) fields_.field("odd", palette_.warn(text.odd));
  const bool alike = group.thread_sums.size() == 1 && group.thread_sums[0].ended == 0 &&
                     group.thread_sums[0].threads == group.thread_sums[0].processes;
  if (!group.thread_sums.empty() && !alike) fields_.field("threads", thread_sums_text(group.thread_sums));
}

void GroupText::print(const ErrorGroup& error, std::size_t number) {
  std::string title;
  switch (error.type) {
    case ErrorType::kDoubleFree:
      title = "DOUBLE FREE";
      break;
    case ErrorType::kInvalidFree:
      title = "INVALID FREE";
      break;
    case ErrorType::kMismatchedFree:
      title = "MISMATCHED FREE";
      break;
    case ErrorType::kFailedFree:
      title = "FREE REFUSED";
      break;
    case ErrorType::kNone:
      title = "ERROR";
      break;
  }
  out_ << "\nE" << padded_to_width(std::to_string(number), 2) << palette_.warn(title) << "  " << error.count << "x  "
       << printable(error.api) << "(" << hex_text(error.handle) << "): " << error.code_name << "\n";
  const bool known = error.kind != Kind::kNone;
  if (known) {
    std::string what =
        kind_name(error.kind) + ", " + format_bytes(error.bytes) + ", " + device_text(error.kind, error.device);
    if (error.allocation_handle != 0 && error.allocation_handle != error.handle)
      what += "; it begins at " + hex_text(error.allocation_handle);
    fields_.field("memory", what);
  }
  fields_.mixed_stack(error.type == ErrorType::kDoubleFree ? "again" : "called at", error.stack->frames,
                      error.type == ErrorType::kDoubleFree);
  fields_.mixed_stack("freed", error.free_stack->frames, false);
  fields_.mixed_stack("allocated", error.allocation_stack->frames, false);
  if (error.thread) {
    std::string text = thread_text(*error.thread) + "; at " + format_time(error.first_ns);
    if (error.free_thread && error.free_thread->tid != error.thread->tid) {
      text += "; freed first by " + thread_text(*error.free_thread);
    }
    fields_.field("thread", text);
  }
}

void render_group(const Report& report, const Group& group, std::size_t number, const RenderOptions& options,
                  std::ostream& out) {
  GroupText(report, options, out).print(group, number);
}

void render_error(const Report& report, const ErrorGroup& error, std::size_t number, const RenderOptions& options,
                  std::ostream& out) {
  GroupText(report, options, out).print(error, number);
}

}  // namespace culprit::report
