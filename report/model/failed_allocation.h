// Allocations that the driver refused, and other calls that failed for want of memory (launches, instantiations, new
// code), summed up by call and code. They hold no memory, so they are no leaks; a program whose allocations all fail
// would read "NOTHING LEAKED" without them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "report/base/compiled_once.h"

namespace culprit::report {

struct Breakdown;
struct ResolvedStack;

struct FailedAllocation {
  CULPRIT_COMPILED_ONCE(FailedAllocation);
  std::string api;
  std::string driver_api;
  int code = 0;
  std::string code_name;
  bool injected = false;  // culprit made it fail: CULPRIT_FAIL
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;     // asked for by the first of them; 0: not known
  std::uint64_t first_ns = 0;  // the first of them in its process
  std::uint64_t last_ns = 0;
  const ResolvedStack* stack = nullptr;  // of the first of them
};

// Sums up failed allocations. The result does not depend on the order in which they are added.
class FailedAllocations {
 public:
  // The counts of equal calls (both names, code, injected or not) add up, and the earliest is the first.
  void add(const FailedAllocation& one);
  // All of them, most frequent first.
  std::vector<FailedAllocation> take();

 private:
  std::map<std::tuple<std::string, std::string, int, bool>, FailedAllocation> sums_;
};

// Why, in words: "no context is current to the thread". A general text for codes without words of their own.
std::string failure_reason(const FailedAllocation& failed);

// "5 allocations FAILED: cuMemAlloc returned CUDA_ERROR_INVALID_CONTEXT (201): no context is current to the thread;
// the first asked for 4 MiB at worker.cpp:12 work", or "1 call FAILED: cuGraphLaunch returned CUDA_ERROR_OUT_OF_MEMORY
// (2): there was not enough free memory; it was made at serve.cpp:31 serve". Names from the dump are made printable.
std::string failed_allocation_text(const FailedAllocation& failed);
// Its two parts, before and after the first colon.
std::string failed_title(const FailedAllocation& failed);
std::string failed_sentence(const FailedAllocation& failed);

// Whether the breakdown, of a failure, shows one of these calls: a report then tells of both in one place.
bool is_shown_by(const FailedAllocation& failed, const Breakdown& breakdown);

// The facts that the calls add to such a breakdown: "3 allocations failed in all; the first asked for 4 MiB at
// worker.cpp:12 work". Empty: the breakdown says it all.
std::string beside_breakdown_text(const FailedAllocation& failed, const Breakdown& breakdown);

}  // namespace culprit::report
