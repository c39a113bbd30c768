#include "report/judge/evidence_builder.h"

#include "report/causes/evidence_functions.h"
#include "report/model/causes.h"

namespace culprit::report {

using namespace format;

EvidenceBuilder::EvidenceBuilder(const Dump& dump, const StackResolver& stacks, const Tables& tables)
    : dump_(dump), stacks_(stacks) {
  for (const AllocationGroup& group : tables.allocations) note_without(group.stack, group.evidence);
  for (const ReleaseRecord& release : tables.releases) note_without(release.stack, release.evidence);
}

void EvidenceBuilder::note_without(Ref stack, Ref evidence) {
  EvidenceRecord known = {};
  if (!dump_.evidence(evidence, &known)) known = {};
  if (known.thrown == 0) without_throw_.insert(stack);
  if (known.failed_call == 0) without_failed_call_.insert(stack);
}

GroupFacts EvidenceBuilder::facts_of(Ref evidence, Ref stack, std::uint64_t count) const {
  GroupFacts facts = {dump_, stacks_};
  if (!dump_.evidence(evidence, &facts.known)) facts.known = {};
  facts.stack = stack;
  facts.count = count;
  facts.others_without_throw = without_throw_.count(stack) != 0;
  facts.others_without_failed_call = without_failed_call_.count(stack) != 0;
  return facts;
}

std::vector<Evidence> EvidenceBuilder::of(const AllocationGroup& group) const {
  GroupFacts facts = facts_of(group.evidence, group.stack, group.count);
  facts.free_failed = group.free_failed;
  facts.allocated = &group;
  return all_of(facts);
}

std::vector<Evidence> EvidenceBuilder::of(const ReleaseRecord& release) const {
  GroupFacts facts = facts_of(release.evidence, release.stack, release.count);
  facts.free_failed = facts.known.error != 0;
  facts.released = &release;
  return all_of(facts);
}

std::vector<Evidence> EvidenceBuilder::all_of(const GroupFacts& facts) {
  std::vector<Evidence> list;
  for (const EvidenceType type : kEvidenceTypes) functions_of(type).collect(facts, &list);
  return list;
}

}  // namespace culprit::report
