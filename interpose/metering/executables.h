// Executable graphs: what the driver took for each of them, and how many each line made and keeps.
//
// The driver keeps what executables took: destroying one gives nothing back, and the next one uses that memory again.
// So a live executable uses at least what its own instantiation and uploads made the driver take. What it uses of
// earlier ones is not known, because no call of the driver tells it.
//
// Every function is thread-safe, keeps errno, never throws, and does nothing when recording is off.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/format/dump_format.h"

namespace culprit {

// note_made() has just recorded this executable. `taken`: memory that its instantiation made the driver take, 0 = none,
// or not measured.
CULPRIT_COLD void note_executable_made(std::uint64_t exec, std::int64_t taken);

// A call with this executable made the driver take memory.
CULPRIT_COLD void note_executable_grown(std::uint64_t exec, std::int64_t taken);

// The context of this executable ended: it has no memory any more.
inline void note_executable_without_context(format::AllocationRecord& record) {
  __atomic_store_n(&record.extra, format::kContextGone, __ATOMIC_RELAXED);
}

// A call that destroys an executable: construct before its record is given back, finish() when the driver agreed.
class ExecutableEnd {
 public:
  explicit ExecutableEnd(format::Ref record);
  void finish();

 private:
  format::CallChargeRecord charge_ = {};  // with `what` kNone: no record
};

}  // namespace culprit
