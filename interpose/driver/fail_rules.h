// The rules of CULPRIT_FAIL: calls that are made to fail, to test the program's error handling.
//
// clang-format off
//     CULPRIT_FAIL=rule[,rule...]
//         NAME:N:CODE       the Nth call of a hooked function returns CODE, a CUresult as a number. cuMemAlloc means
//                           all its versions and twins, cuMemAlloc_v2 that one only
//         alloc:N           the Nth call that allocates memory, by any function, returns CUDA_ERROR_OUT_OF_MEMORY
//         alloc-site:HEX    the first call that allocates memory with this stack returns CUDA_ERROR_OUT_OF_MEMORY
//         sites             no call fails; the dump lists the stacks that allocate memory, for alloc-site
// clang-format on
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

// Reads the value of CULPRIT_FAIL; null and "" give no rules. Returns false, with no rules at all, if any part is
// invalid: a test with only some of the rules would mislead. Never allocates.
bool parse_fail_rules(const char* text, FailRules* rules);

// Whether a row's calls allocate memory, as `alloc` counts them. Imports, reservations and mappings do not.
bool allocates_memory(Api api);

}  // namespace culprit
