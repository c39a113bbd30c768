// Memory that was left behind after a failed call.
#include "report/base/words.h"
#include "report/causes/event.h"
#include "report/causes/group_facts.h"
#include "report/causes/library_rules.h"
#include "report/cuda/cuda_names.h"
#include "report/model/frame_rules.h"
#include "report/model/record_facts.h"
#include "report/model/stacks.h"

namespace culprit::report {
namespace {

// Two calls that share only a library's function, or the start of their thread, are unrelated. So the frame left by an
// error return must be code that could have freed the memory.
void collect(const GroupFacts& facts, std::vector<Evidence>* list) {
  const format::EvidenceRecord& known = facts.known;
  format::FailedCallRecord failed;
  if (!facts.dump.failed_call(known.failed_call, &failed)) return;
  if (is_handed_on(known.flags & format::kEvidenceEarlierCall, facts.others_without_failed_call)) return;
  const Frame* owner = facts.stacks.frame_from_outermost(facts.stack, known.failed_call_owner);
  if (owner == nullptr || is_system_code(*owner) || is_known_library(*owner)) return;
  Evidence evidence = evidence_of(EvidenceType::kErrorReturn);
  evidence.stack = &facts.stacks.stack(failed.stack);
  evidence.api = api_of(facts.dump, failed.api, *evidence.stack);
  evidence.code = failed.code;
  evidence.code_name = cuda_result_name(failed.code);
  evidence.injected = (failed.flags & format::kFailedInjected) != 0;
  evidence.bytes = failed.bytes;
  evidence.owner = owner;
  evidence.thread = thread_of(facts.dump, failed.thread);
  evidence.count = failed.count;
  evidence.time_ns = failed.last_ns;
  evidence.first_ns = failed.first_ns;
  evidence.records.push_back(known.failed_call);
  list->push_back(std::move(evidence));
}

std::vector<EvidenceLine> lines(const Group& group, const Evidence& evidence) {
  const Frame* caller = named_frame(*evidence.stack);
  std::string text = caller != nullptr ? spot(caller) + "  " : "";
  text += printable(evidence.api) + ": " + evidence.code_name;
  if (evidence.injected) text += " (injected)";
  std::vector<EvidenceLine> list = {{"failed", text + times(evidence)}};
  add_callers(*evidence.stack, group, &list);
  return list;
}

std::vector<EvidenceField> fields(const Evidence& evidence) {
  std::vector<EvidenceField> list = {{"api", evidence.api},
                                     {"code", evidence.code},
                                     {"code_name", evidence.code_name},
                                     {"injected", evidence.injected},
                                     {"bytes", evidence.bytes}};
  add_owner(evidence, &list);
  add_event(evidence, &list);
  return list;
}

std::string title(const Evidence& evidence) { return evidence.api + " failed: " + evidence.code_name; }

std::string place(const Evidence& evidence) { return evidence.api + " failed here: " + evidence.code_name; }

std::string fate(const Evidence& evidence, bool) {
  return "stayed behind when " + printable(evidence.api) + " failed" + at_event(evidence);
}

std::string hint(const Group& group, const Evidence& evidence) {
  return "no free on the path after " + printable(evidence.api) + " failed" + at_event(evidence, group) +
         ": free before returning, or give the pointer an owner (RAII)";
}

}  // namespace

const EvidenceFunctions kErrorReturnFunctions = {collect, has_stack, lines, fields, title, place, fate, hint};

}  // namespace culprit::report
