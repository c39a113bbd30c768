// The launch of the graph that allocated the memory. Information: it decides no cause.
#include "report/base/words.h"
#include "report/causes/event.h"
#include "report/causes/group_facts.h"
#include "report/model/frame_text.h"
#include "report/model/stacks.h"

namespace culprit::report {
namespace {

void collect(const GroupFacts& facts, std::vector<Evidence>* list) {
  if (facts.allocated == nullptr || facts.allocated->launches == 0) return;
  StackView known;
  if (facts.allocated->launch != 0 && !facts.dump.stack(facts.allocated->launch, &known))
    return;  // of an older library
  Evidence evidence = evidence_of(EvidenceType::kGraphLaunch);
  evidence.stack = &facts.stacks.stack(facts.allocated->launch);
  evidence.count = facts.allocated->launches;
  evidence.time_ns = facts.allocated->last_ns;
  list->push_back(std::move(evidence));
}

std::vector<EvidenceLine> lines(const Group& group, const Evidence& evidence) {
  const Frame* launcher = named_frame(*evidence.stack);
  std::string text = launcher == nullptr ? "the graph" : spot(launcher);
  if (launcher != nullptr && launcher->line != 0) text += "  " + frame_function(*launcher);
  std::vector<EvidenceLine> list = {{"launched", text + times(evidence)}};
  add_callers(*evidence.stack, group, &list);
  return list;
}

std::vector<EvidenceField> fields(const Evidence& evidence) {
  std::vector<EvidenceField> list;
  add_event(evidence, &list);
  return list;
}

std::string title(const Evidence& evidence) { return "the graph was launched" + times(evidence); }

std::string place(const Evidence&) { return "graph launched here"; }
std::string fate(const Evidence&, bool) { return {}; }
std::string hint(const Group&, const Evidence&) { return {}; }

}  // namespace

const EvidenceFunctions kGraphLaunchFunctions = {collect, has_stack, lines, fields, title, place, fate, hint};

}  // namespace culprit::report
