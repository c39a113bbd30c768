// Turns the records about one group of allocations into evidence: refused frees, exceptions, failed calls, holders and
// context teardowns, each with the cause that it points to.
#pragma once

#include <set>
#include <vector>

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
  Evidence failed_free(format::Ref error, std::uint64_t count) const;
  Evidence held(const AllocationGroup& group) const;
  Evidence teardown(const format::ReleaseRecord& release) const;
  void add_thrown(const format::EvidenceRecord& known, format::Ref stack, std::vector<Evidence>* evidence) const;
  void add_failed_call(const format::EvidenceRecord& known, format::Ref stack, std::vector<Evidence>* evidence) const;

  const Dump& dump_;
  const StackResolver& stacks_;
  // Stacks with at least one unfreed allocation that no exception, or no failed call, was recorded for.
  std::set<format::Ref> without_throw_;
  std::set<format::Ref> without_failed_call_;
};

}  // namespace culprit::report
