// Memory that went with its context.
#include "report/base/words.h"
#include "report/causes/event.h"
#include "report/causes/group_facts.h"
#include "report/model/record_facts.h"
#include "report/model/stacks.h"

namespace culprit::report {
namespace {

void collect(const GroupFacts& facts, std::vector<Evidence>* list) {
  if (facts.released == nullptr) return;
  const format::ReleaseRecord& release = *facts.released;
  Evidence evidence = evidence_of(EvidenceType::kContextTeardown);
  evidence.stack = &facts.stacks.stack(release.teardown_stack);
  evidence.api = api_of(facts.dump, release.teardown_api, *evidence.stack);
  evidence.count = release.count;
  evidence.time_ns = release.teardown_ns;
  list->push_back(std::move(evidence));
}

std::vector<EvidenceLine> lines(const Group&, const Evidence& evidence) {
  return {{"ended by", printable(evidence.api) + " at " + format_time(evidence.time_ns)}, {"", "", {}, evidence.stack}};
}

std::vector<EvidenceField> fields(const Evidence& evidence) {
  std::vector<EvidenceField> list = {{"api", evidence.api}};
  add_event(evidence, &list);
  return list;
}

std::string title(const Evidence& evidence) { return evidence.api + " ended its context"; }

std::string place(const Evidence& evidence) { return "context ended here by " + evidence.api; }

std::string fate(const Evidence&, bool one) { return one ? "went with its context" : "went with their context"; }

std::string hint(const Group& group, const Evidence& evidence) {
  return "free it before " + printable(evidence.api) + at_event(evidence, group);
}

}  // namespace

const EvidenceFunctions kContextTeardownFunctions = {collect, has_stack, lines, fields, title, place, fate, hint};

}  // namespace culprit::report
