#include "report/causes/event.h"

#include <algorithm>

#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/model/group.h"
#include "report/model/program_frames.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostCallers = 6;

// Throwing functions of the C++ run-time library: std::__throw_length_error, operator new.
bool in_cxx_runtime(const Frame& frame) {
  if (frame.module == nullptr) return false;
  for (const char* name : {"libstdc++.so", "libc++.so", "libc++abi.so", "libgcc_s.so"}) {
    if (frame.module->name.rfind(name, 0) == 0) return true;
  }
  return false;
}

}  // namespace

Evidence evidence_of(EvidenceType type) {
  Evidence evidence;
  evidence.type = type;
  evidence.points_to = row_of(type).cause;
  return evidence;
}

bool is_handed_on(bool earlier, bool others_live_on) { return earlier && others_live_on; }

const Frame* named_frame(const ResolvedStack& stack) {
  const Frame* first = nullptr;
  for (const Frame* frame : stack.frames) {
    if (frame->python && !is_program_frame(*frame)) continue;
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

std::string at_event(const Evidence& evidence) {
  const Frame* frame = evidence.stack != nullptr ? named_frame(*evidence.stack) : nullptr;
  return frame != nullptr ? " at " + spot(frame) : "";
}

std::string at_event(const Evidence& evidence, const Group& group) {
  const Frame* frame = named_frame(*evidence.stack);
  if (frame == nullptr) return {};
  const Frame* allocated = group.stack->frames.empty() ? nullptr : group.stack->frames.front();
  const bool same_file = allocated != nullptr && !frame->file.empty() && frame->file == allocated->file;
  return same_file && frame->line != 0 ? " at line " + std::to_string(frame->line) : " at " + spot(frame);
}

std::string times(const Evidence& evidence) {
  return evidence.count > 1 ? ", " + std::to_string(evidence.count) + " times" : "";
}

void add_callers(const ResolvedStack& stack, const Group& group, std::vector<EvidenceLine>* lines) {
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
  if (!callers.empty()) lines->push_back({"", "", std::move(callers)});
}

void add_event(const Evidence& evidence, std::vector<EvidenceField>* fields) {
  fields->push_back({"count", evidence.count});
  if (evidence.first_ns != 0) fields->push_back({"first_ns", evidence.first_ns});
  fields->push_back({"time_ns", evidence.time_ns});
  fields->push_back({"stack", evidence.stack});
}

void add_owner(const Evidence& evidence, std::vector<EvidenceField>* fields) {
  fields->push_back({"owner", nullptr});
  if (evidence.owner != nullptr) fields->back().value = evidence.owner->function;
  fields->push_back({"thread", nullptr});
  if (evidence.thread) fields->back().value = *evidence.thread;
}

bool has_stack(const Evidence& evidence) { return evidence.stack != nullptr; }

}  // namespace culprit::report
