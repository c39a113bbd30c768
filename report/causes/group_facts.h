// What EvidenceFunctions::collect() looks for evidence in.
#pragma once

#include <cstdint>

#include "report/dump/tables.h"

namespace culprit::report {

class StackResolver;

// The facts of the dump about one group of allocations.
struct GroupFacts {
  const Dump& dump;
  const StackResolver& stacks;
  format::EvidenceRecord known = {};
  format::Ref stack = 0;
  std::uint64_t count = 0;
  bool free_failed = false;
  const AllocationGroup* allocated = nullptr;       // nullptr: they went with their context
  const format::ReleaseRecord* released = nullptr;  // of those that went with their context
  // Whether other allocations of this stack live on although no exception, or no failed call, was recorded for them.
  bool others_without_throw = false;
  bool others_without_failed_call = false;
};

}  // namespace culprit::report
