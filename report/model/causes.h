// Why memory was not freed: causes, and the types of evidence for them.
#pragma once

namespace culprit::report {

// Why memory was not freed. A group's cause is the first of these, in this order, that holds; the others are evidence.
enum class Cause {
  kCached,           // a segment of a known pooling allocator
  kFailedFree,       // a free of it was refused
  kHeld,             // a global still has the pointer
  kException,        // an exception left the function that owned the memory
  kErrorReturn,      // the owner returned early after a failed call
  kContextTeardown,  // destroyed together with its context
  kNeverFreed,       // no further evidence
};

enum class EvidenceType { kFailedFree, kHeld, kException, kErrorReturn, kContextTeardown, kThreadEnded };

// "never-freed", "failed-free": the names in the JSON report.
const char* cause_name(Cause cause);
// "failed-free", "exception": the type of a piece of evidence in the JSON report.
const char* evidence_name(EvidenceType type);

}  // namespace culprit::report
