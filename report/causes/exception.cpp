// Memory whose owner was left by an exception, or by pthread_exit or a cancellation.
#include <algorithm>

#include "report/base/words.h"
#include "report/causes/event.h"
#include "report/causes/group_facts.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/model/record_facts.h"
#include "report/model/stacks.h"
#include "report/symbols/demangle.h"

namespace culprit::report {
namespace {

constexpr std::size_t kLongestWhat = 200;

// "ns::work" of "ns::work(int) [clone .actor]": the parts that a compiler makes of a coroutine have this in common.
std::string_view name_of_coroutine(std::string_view function) {
  constexpr std::string_view kNoName = "(anonymous namespace)";
  std::size_t at = function.find('(');
  while (at != std::string_view::npos && function.substr(at, kNoName.size()) == kNoName)
    at = function.find('(', at + kNoName.size());
  function = function.substr(0, at);
  return function.substr(0, function.find(" ["));
}

// Whether one of the coroutine's parts allocated. Another function may have lent the coroutine its memory.
bool allocates(const ResolvedStack& stack, const ResolvedStack& caught) {
  const Frame* handler = named_frame(caught);
  if (handler == nullptr) return false;
  const std::string_view coroutine = name_of_coroutine(handler->function);
  return std::any_of(stack.frames.begin(), stack.frames.end(),
                     [&](const Frame* frame) { return name_of_coroutine(frame->function) == coroutine; });
}

void collect(const GroupFacts& facts, std::vector<Evidence>* list) {
  const format::EvidenceRecord& known = facts.known;
  format::ThrowRecord thrown;
  if (!facts.dump.thrown(known.thrown, &thrown)) return;
  if (is_handed_on(known.flags & format::kEvidenceEarlier, facts.others_without_throw)) return;
  Evidence evidence = evidence_of(EvidenceType::kException);
  evidence.stack = &facts.stacks.stack(thrown.stack);
  evidence.exception = type_name(std::string(facts.dump.string(thrown.type)));
  evidence.what = facts.dump.string(thrown.what);
  if ((thrown.flags & format::kThrowCaught) != 0) evidence.caught = &facts.stacks.stack(thrown.catch_stack);
  if ((known.flags & format::kEvidenceCoroutine) != 0 && known.thrown_owner == 0 &&
      (evidence.caught == nullptr || !allocates(facts.stacks.stack(facts.stack), *evidence.caught)))
    return;
  evidence.uncaught = (thrown.flags & format::kThrowUncaught) != 0;
  evidence.forced = (thrown.flags & format::kThrowForced) != 0;
  evidence.rethrown = (thrown.flags & format::kThrowRethrown) != 0;
  evidence.ambiguous = (known.flags & format::kEvidenceAmbiguous) != 0;
  evidence.owner = facts.stacks.frame_from_outermost(facts.stack, known.thrown_owner);
  evidence.thread = thread_of(facts.dump, thrown.thread);
  evidence.count = thrown.count;
  evidence.time_ns = thrown.last_ns;
  evidence.first_ns = thrown.first_ns;
  evidence.records.push_back(known.thrown);
  list->push_back(std::move(evidence));
}

// "std::runtime_error", "an exception of unknown type".
std::string exception_text(const Evidence& evidence) {
  return evidence.exception.empty() ? "an exception of unknown type" : evidence.exception;
}

std::string quoted(const std::string& text) { return "\"" + cut_to_width(printable(text), kLongestWhat, "...") + "\""; }

std::vector<EvidenceLine> lines(const Group& group, const Evidence& evidence) {
  std::vector<EvidenceLine> list;
  const Frame* thrower = named_frame(*evidence.stack);
  const Frame* catcher = evidence.caught != nullptr ? named_frame(*evidence.caught) : nullptr;
  const std::size_t width = std::max(columns_of(spot(thrower)), columns_of(spot(catcher)));
  auto at = [&](const Frame* frame) { return width == 0 ? "" : padded_to_width(spot(frame), width) + "  "; };

  if (evidence.forced) {
    list.push_back({"unwound", at(thrower) + "by pthread_exit or cancellation"});
  } else {
    std::string text = at(thrower) + printable(exception_text(evidence));
    if (!evidence.what.empty()) text += " " + quoted(evidence.what);
    if (evidence.rethrown) text += ", rethrown";
    list.push_back({"thrown", text + times(evidence)});
  }
  add_callers(*evidence.stack, group, &list);
  if (catcher != nullptr) {
    std::string text = at(catcher) + frame_function(*catcher);
    if (evidence.ambiguous) text += " (or another handler for the same type)";
    list.push_back({"caught", text});
  } else if (evidence.uncaught) {
    list.push_back({"caught", "nowhere: the program was terminated"});
  }
  return list;
}

std::vector<EvidenceField> fields(const Evidence& evidence) {
  std::vector<EvidenceField> list = {{"exception", nullptr}, {"what", nullptr}};
  if (!evidence.exception.empty()) list[0].value = evidence.exception;
  if (!evidence.what.empty()) list[1].value = evidence.what;
  list.push_back({"caught", evidence.caught != nullptr});
  list.push_back({"uncaught", evidence.uncaught});
  list.push_back({"rethrown", evidence.rethrown});
  list.push_back({"forced", evidence.forced});
  list.push_back({"ambiguous", evidence.ambiguous});
  add_owner(evidence, &list);
  add_event(evidence, &list);
  list.push_back({"caught_stack", evidence.caught});
  return list;
}

std::string title(const Evidence& evidence) {
  if (evidence.forced) return "thread unwound by pthread_exit or cancellation";
  return (evidence.exception.empty() ? "exception of unknown type" : evidence.exception) +
         (evidence.what.empty() ? "" : " “" + evidence.what + "”");
}

std::string place(const Evidence& evidence) {
  if (evidence.exception.empty() && evidence.what.empty()) return "thrown here";
  return "thrown here: " + exception_text(evidence) + (evidence.what.empty() ? "" : " " + quoted(evidence.what));
}

std::string fate(const Evidence& evidence, bool) {
  if (evidence.forced) return "went with a thread that pthread_exit or cancellation ended";
  return "left through " + printable(exception_text(evidence)) + " thrown" + at_event(evidence);
}

std::string hint(const Group& group, const Evidence& evidence) {
  if (evidence.forced) {
    return "free it in a destructor or with pthread_cleanup_push: the thread is unwound without reaching the free";
  }
  if (evidence.uncaught) {
    return "catch " + printable(exception_text(evidence)) + " in main: an uncaught exception runs no destructor";
  }
  return "no free on the path thrown" + at_event(evidence, group) + ": give the pointer an owner (RAII) before it";
}

}  // namespace

const EvidenceFunctions kExceptionFunctions = {collect, has_stack, lines, fields, title, place, fate, hint};

}  // namespace culprit::report
