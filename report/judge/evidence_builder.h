// Turns the records about one group of allocations into evidence: asks each file of report/causes/.
#pragma once

#include <set>
#include <vector>

#include "report/causes/group_facts.h"
#include "report/dump/tables.h"
#include "report/model/evidence.h"

namespace culprit::report {

class StackResolver;

class EvidenceBuilder {
 public:
  // The arguments must outlive the builder. The stacks and places of the tables must have been resolved.
  EvidenceBuilder(const Dump& dump, const StackResolver& stacks, const Tables& tables);

  std::vector<Evidence> of(const AllocationGroup& group) const;
  std::vector<Evidence> of(const format::ReleaseRecord& release) const;

 private:
  void note_without(format::Ref stack, format::Ref evidence);

  GroupFacts facts_of(format::Ref evidence, format::Ref stack, std::uint64_t count) const;
  static std::vector<Evidence> all_of(const GroupFacts& facts);

  const Dump& dump_;
  const StackResolver& stacks_;
  // Stacks with at least one unfreed allocation that no exception, or no failed call, was recorded for.
  std::set<format::Ref> without_throw_;
  std::set<format::Ref> without_failed_call_;
};

}  // namespace culprit::report
