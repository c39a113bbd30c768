// Explains allocations that failed with out of memory (out_of_memory.h).
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "report/judge/out_of_memory.h"

namespace culprit::report {

struct Report;

// Explains the failures of a report, which must outlive it.
class Explainer {
 public:
  explicit Explainer(const Report& report);

  // `breakdown` is one of the report's, of a failure. The result points into the report.
  OutOfMemory explain(const Breakdown& breakdown) const;

 private:
  using Place = std::pair<std::uint32_t, unsigned>;  // process and device

  const Balance* balance_of(const Breakdown& breakdown) const;
  std::uint64_t others_at_most(const Balance& balance) const;

  std::map<Place, std::uint64_t> last_ns_;         // of failures
  std::map<Place, const Balance*> balances_;       // at the last failure
  std::map<Place, std::uint64_t> first_contexts_;  // bytes
};

}  // namespace culprit::report
