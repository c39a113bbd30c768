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

  // The facts in the dump about one group of allocations.
  struct Facts {
    format::EvidenceRecord known = {};
    format::Ref stack = 0;
    std::uint64_t count = 0;
    bool free_failed = false;
    const AllocationGroup* allocated = nullptr;       // nullptr: they went with their context
    const format::ReleaseRecord* released = nullptr;  // of those that went with their context
  };
  Facts facts_of(format::Ref evidence, format::Ref stack, std::uint64_t count) const;
  std::vector<Evidence> all_of(const Facts& facts) const;

  // add_failed_free(), add_held(), ...: append the evidence of their type if the facts have it.
#define EVIDENCE(type, function, ...) void add_##function(const Facts& facts, std::vector<Evidence>* list) const;
#define INFORMATION(...)
#include "report/model/causes.def"

  const Dump& dump_;
  const StackResolver& stacks_;
  // Stacks with at least one unfreed allocation that no exception, or no failed call, was recorded for.
  std::set<format::Ref> without_throw_;
  std::set<format::Ref> without_failed_call_;
};

}  // namespace culprit::report
