// The words for memory that was not freed. They depend on how the process ended: memory that was live when a process
// was killed or detached is no leak yet, because the program might still have freed it.
#pragma once

#include <cstdint>
#include <vector>

#include "report/model/causes.h"

namespace culprit::report {

struct Report;

struct MemoryWords {
  const char* headline;  // "LEAKED", followed by a number of bytes
  const char* sentence;  // "Leaked", likewise, at the begin of a sentence
  const char* fate;      // "never given back", after a number of bytes
  const char* nothing;   // "NOTHING LEAKED": the headline of a complete report without such memory
  const char* none_of;   // "no leak", before "among the recorded allocations"
  bool may_be_freed;     // the program could still have freed it: a cause has its title for a running program, no hint
};

// The words for memory of that cause: for a process that exited, was killed, ended without its exit handlers, still
// runs, or was recorded by `culprit attach` and runs on. Of a killed process memory with a proven cause counts as
// leaked; likewise of one of which only the end is known. A report of several processes has the words of such ones only
// when all of them are.
const MemoryWords& words_of(const Report& report, Cause cause);

// The words for memory without a proven cause, which are those of the report as a whole.
const MemoryWords& words_of(const Report& report);

// The memory of a report that has the same words.
struct MemoryTotal {
  const MemoryWords* words = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t allocations = 0;
  std::uint64_t groups = 0;
};

// The counted leaks by their words: one entry, or two for a killed process, of which the leaked memory comes first.
// Empty without leaks. `strict`: counts_as_leak().
std::vector<MemoryTotal> totals_by_words(const Report& report, bool strict);

// The title of the cause in this report, "Never freed" or "Not freed yet".
const char* title_of(const Report& report, Cause cause);

}  // namespace culprit::report
