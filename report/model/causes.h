// Why memory was not freed, and which facts say so: the rows of causes.def.
#pragma once

#include <cstddef>
#include <iterator>

namespace culprit::report {

// Why memory was not freed. A group's cause is the first of these, in this order, that holds; the others are evidence.
//   kCached: a segment of a known pooling allocator; kFailedFree: a free of it was refused; kHeld: a global still has
//   the pointer; kException: an exception left the function that owned the memory; kErrorReturn: the owner returned
//   early after a failed call; kContextTeardown: destroyed together with its context; kLost: no pointer to it was
//   left at exit; kNeverFreed: no further evidence.
enum class Cause {
#define CAUSE(enumerator, ...) enumerator,
#include "report/model/causes.def"
};

enum class EvidenceType {
#define EVIDENCE(enumerator, ...) enumerator,
#include "report/model/causes.def"
};

// The state of memory while its program runs: an allocator keeps it for later use; it is lost, because its owner is
// gone or its free was refused; or it may still be freed.
enum class WhileRunning { kKept, kLost, kLive };

struct CauseRow {
  const char* name;  // "never-freed": in the JSON report
  WhileRunning while_running;
  const char* title;                // "Never freed"
  const char* title_while_running;  // "Not freed yet"
  const char* colour;               // "#b7c0cc"
  const char* sentence;             // "Memory that was never freed."
};

struct EvidenceRow {
  const char* name;   // "thread-ended": in the JSON report
  Cause cause;        // that it points to
  const char* label;  // of its card in the page; "": it has none
  const char* event;  // in the legend of the page's time line; "": it is not shown there
};

// All causes and all types of evidence, in their order.
inline constexpr Cause kCauses[] = {
#define CAUSE(enumerator, ...) Cause::enumerator,
#include "report/model/causes.def"
};
inline constexpr EvidenceType kEvidenceTypes[] = {
#define EVIDENCE(enumerator, ...) EvidenceType::enumerator,
#include "report/model/causes.def"
};
inline constexpr Cause kLastCause = kCauses[std::size(kCauses) - 1];
inline constexpr EvidenceType kLastEvidenceType = kEvidenceTypes[std::size(kEvidenceTypes) - 1];
static_assert(kLastCause == Cause::kNeverFreed, "the cause that holds without evidence is the last one");

// The row of a cause or of a type of evidence.
const CauseRow& row_of(Cause cause);
const EvidenceRow& row_of(EvidenceType type);

// The names of the rows.
inline const char* cause_name(Cause cause) { return row_of(cause).name; }
inline const char* evidence_name(EvidenceType type) { return row_of(type).name; }

}  // namespace culprit::report
