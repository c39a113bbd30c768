// What CULPRIT_FAIL asks for: calls that are made to fail, to see what the program does then.
//
//     CULPRIT_FAIL=rule[,rule...]
//         NAME:N:CODE       the Nth call of a hooked function returns CODE, a CUresult as a number. cuMemAlloc means
//         all its
//                           versions and twins, cuMemAlloc_v2 that one only
//         alloc:N           the Nth call that allocates memory, whichever function it is, returns
//         CUDA_ERROR_OUT_OF_MEMORY alloc-site:HEX    the first call that allocates memory with this stack does sites
//         nothing fails; the dump lists the stacks that allocate memory, for alloc-site
#pragma once

#include <cstdint>

#include "interpose/driver/api.h"

namespace culprit {

struct FailRule {
  enum class Kind : std::uint8_t { kCall, kAllocation, kAllocationSite };
  Kind kind;
  std::uint32_t nth;   // from 1
  std::int32_t code;   // CUresult
  std::uint64_t site;  // kAllocationSite
  bool applies[kApiCount];
};

struct FailRules {
  static constexpr int kMost = 16;
  static constexpr int kMostText = 1023;
  int count;
  bool note_sites;
  FailRule rules[kMost];
  bool any() const { return count > 0 || note_sites; }
  bool need_sites() const;
};

// Reads the value of CULPRIT_FAIL; null and "" are no rules. False, and no rules at all, when something in it cannot be
// understood: half of what was asked for would tell less than nothing. Never allocates.
bool parse_fail_rules(const char* text, FailRules* rules);

// Whether a row's calls allocate memory: what `alloc` counts. Not imports, reservations and mappings, which are views.
bool allocates_memory(Api api);

}  // namespace culprit
