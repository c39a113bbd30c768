#include "report/render/text/evidence_text.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/model/causes.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/model/group.h"
#include "report/render/text/text_fields.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostCallers = 6;
constexpr std::size_t kLongestWhat = 200;

// Throwing functions of the C++ run-time library: std::__throw_length_error, operator new.
bool in_cxx_runtime(const Frame& frame) {
  if (frame.module == nullptr) return false;
  for (const char* name : {"libstdc++.so", "libc++.so", "libc++abi.so", "libgcc_s.so"}) {
    if (frame.module->name.rfind(name, 0) == 0) return true;
  }
  return false;
}

std::string quoted(const std::string& text) {
  const std::string shown = printable(text);
  return "\"" + (shown.size() > kLongestWhat ? shown.substr(0, kLongestWhat) + "..." : shown) + "\"";
}

// Prints the callers of the event's naming frame, unless the allocation's own stack shows them.
void print_callers(const ResolvedStack& stack, const Group& group, TextFields* fields) {
  std::vector<const Frame*> callers;
  const Frame* named = named_frame(stack);
  bool reached = false;
  for (const Frame* frame : stack.frames) {
    const bool shared = std::any_of(group.stack->frames.begin(), group.stack->frames.end(), [&](const Frame* one) {
      return one->module == frame->module && one->function == frame->function;
    });
    if (reached && (shared || callers.size() == kMostCallers)) break;
    if (reached) callers.push_back(frame);
    reached = reached || frame == named;
    if (reached && shared) break;
  }
  if (!callers.empty()) fields->stack("", callers);
}

// " at solver.cu:33": where the event of the evidence happened; "" when that is not known.
std::string at_event(const Evidence& evidence) {
  const Frame* frame = evidence.stack != nullptr ? named_frame(*evidence.stack) : nullptr;
  return frame != nullptr ? " at " + spot(frame) : "";
}

// Three functions for each type of evidence: print_...() prints its lines below a group; ..._fate() says how the leaked
// allocations ended, for the end of "the 3 that leaked all ..." (`one`: a single one leaked); ..._place() describes the
// event at its place in the source. The last two return "" when the evidence has no such text.

void print_failed_free(const Group&, const Evidence& evidence, TextFields* fields) {
  std::string text = evidence.api.empty() ? "a free of it" : printable(evidence.api);
  if (!evidence.code_name.empty()) text += ": " + evidence.code_name;
  if (evidence.count > 1) text += ", " + std::to_string(evidence.count) + " times";
  fields->field("refused", text);
  fields->mixed_stack("", evidence.stack->frames, false);
}

std::string failed_free_fate(const Evidence&, bool one) {
  return one ? "had its free refused" : "had their free refused";
}

std::string failed_free_place(const Evidence& evidence) { return "free refused here: " + evidence.code_name; }

void print_held(const Group&, const Evidence& evidence, TextFields* fields) {
  const Variable& variable = *evidence.variable;
  const std::string module = printable(variable.module->name);
  std::string text;
  if (variable.python) {
    text = printable(variable.name);
  } else if (variable.name.empty()) {
    text = module + "+" + hex_text(evidence.offset) + " (a global without a symbol)";
  } else {
    text = printable(variable.name);
    if (evidence.offset > variable.begin) text += "+" + hex_text(evidence.offset - variable.begin);
    text += " in " + module;
  }
  if (evidence.count > 1) text += ", " + std::to_string(evidence.count) + (variable.python ? " objects" : " pointers");
  fields->field("held by", text);
}

std::string held_fate(const Evidence& evidence, bool one) {
  return (one ? "is held by " : "are held by ") + variable_text(*evidence.variable);
}

std::string held_place(const Evidence&) { return {}; }

void print_exception(const Group& group, const Evidence& evidence, TextFields* fields) {
  const Frame* thrower = named_frame(*evidence.stack);
  const Frame* catcher = evidence.caught != nullptr ? named_frame(*evidence.caught) : nullptr;
  const std::size_t width = std::max(spot(thrower).size(), spot(catcher).size());
  auto at = [&](const Frame* frame) { return width == 0 ? "" : padded(spot(frame), width) + "  "; };

  if (evidence.forced) {
    fields->field("unwound", at(thrower) + "by pthread_exit or cancellation");
  } else {
    std::string text = at(thrower) + printable(exception_text(evidence));
    if (!evidence.what.empty()) text += " " + quoted(evidence.what);
    if (evidence.rethrown) text += ", rethrown";
    if (evidence.count > 1) text += ", " + std::to_string(evidence.count) + " times";
    fields->field("thrown", text);
  }
  print_callers(*evidence.stack, group, fields);
  if (catcher != nullptr) {
    std::string text = at(catcher) + frame_function(*catcher);
    if (evidence.ambiguous) text += " (or another handler for the same type)";
    fields->field("caught", text);
  } else if (evidence.uncaught) {
    fields->field("caught", "nowhere: the program was terminated");
  }
}

std::string exception_fate(const Evidence& evidence, bool) {
  if (evidence.forced) return "went with a thread that pthread_exit or cancellation ended";
  return "left through " + printable(exception_text(evidence)) + " thrown" + at_event(evidence);
}

std::string exception_place(const Evidence& evidence) {
  return evidence.exception.empty() ? "thrown here" : "thrown here: " + evidence.exception;
}

void print_error_return(const Group& group, const Evidence& evidence, TextFields* fields) {
  const Frame* caller = named_frame(*evidence.stack);
  std::string text = caller != nullptr ? spot(caller) + "  " : "";
  text += printable(evidence.api) + ": " + evidence.code_name;
  if (evidence.injected) text += " (injected)";
  if (evidence.count > 1) text += ", " + std::to_string(evidence.count) + " times";
  fields->field("failed", text);
  print_callers(*evidence.stack, group, fields);
}

std::string error_return_fate(const Evidence& evidence, bool) {
  return "stayed behind when " + printable(evidence.api) + " failed" + at_event(evidence);
}

std::string error_return_place(const Evidence& evidence) {
  return evidence.api + " failed here: " + evidence.code_name;
}

void print_context_teardown(const Group&, const Evidence& evidence, TextFields* fields) {
  fields->field("ended by", printable(evidence.api) + " at " + format_time(evidence.time_ns));
  fields->mixed_stack("", evidence.stack->frames, false);
}

std::string context_teardown_fate(const Evidence&, bool one) {
  return one ? "went with its context" : "went with their context";
}

std::string context_teardown_place(const Evidence& evidence) { return "context ended here by " + evidence.api; }

// An ended thread is mentioned with the threads instead.
void print_thread_ended(const Group&, const Evidence&, TextFields*) {}
std::string thread_ended_fate(const Evidence&, bool) { return {}; }
std::string thread_ended_place(const Evidence&) { return {}; }

struct EvidenceText {
  void (*print)(const Group& group, const Evidence& evidence, TextFields* fields);
  std::string (*fate)(const Evidence& evidence, bool one);
  std::string (*place)(const Evidence& evidence);
};
constexpr EvidenceText kTexts[] = {
#define EVIDENCE(type, function, ...) {print_##function, function##_fate, function##_place},
#include "report/model/causes.def"
};

const EvidenceText& text_of(const Evidence& evidence) { return kTexts[static_cast<std::size_t>(evidence.type)]; }

}  // namespace

const Frame* named_frame(const ResolvedStack& stack) {
  const Frame* first = nullptr;
  for (const Frame* frame : stack.frames) {
    if (first == nullptr && !in_cxx_runtime(*frame)) first = frame;
    // A Python line is preferred to a native frame without a source line, which users cannot look up.
    if (first != nullptr && (!first->file.empty() || !stack.has_python)) break;
    if (frame->python) return frame;
  }
  return first != nullptr || stack.frames.empty() ? first : stack.frames.front();
}

std::string spot(const Frame* frame) {
  if (frame == nullptr) return {};
  return frame->file.empty() ? frame_function(*frame) : frame_place(*frame);
}

std::string variable_text(const Variable& variable) {
  if (variable.python) return printable(variable.name);
  if (variable.name.empty()) return "a global of " + printable(variable.module->name);
  return "`" + printable(variable.name) + "`";
}

std::string exception_text(const Evidence& evidence) {
  return evidence.exception.empty() ? "an exception of unknown type" : evidence.exception;
}

const Evidence* deciding_evidence(const Group& group) {
  for (const Evidence& evidence : group.evidence) {
    if (evidence.points_to == group.cause && group.cause != Cause::kNeverFreed) return &evidence;
  }
  return nullptr;
}

std::string history_text(const Group& group) {
  if (group.freed == 0) return {};
  std::string text = "freed in " + std::to_string(group.freed) + " of " + plural(group.made, "call", "calls");
  const std::uint64_t leaked = group.made - group.freed;
  const Evidence* evidence = deciding_evidence(group);
  const std::string fate = evidence != nullptr ? text_of(*evidence).fate(*evidence, group.count == 1) : "";
  if (fate.empty() || leaked < group.count) return text;
  if (leaked == 1) return text + "; the one that leaked " + fate;
  const std::string all = std::to_string(leaked) + " that leaked ";
  if (leaked == group.count) return text + "; the " + all + "all " + fate;
  return text + "; " + std::to_string(group.count) + " of the " + all + fate;
}

std::string event_place(const Evidence& evidence) { return text_of(evidence).place(evidence); }

void print_evidence(const Group& group, const Evidence& evidence, TextFields* fields) {
  text_of(evidence).print(group, evidence, fields);
}

}  // namespace culprit::report
