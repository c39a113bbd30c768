// The kind of program that runs in the process: whether libculprit.so can be loaded into it at all.
#pragma once

#include <string>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

// The program is not there as a whole yet: the kernel or its loader is still mapping it. Passes by.
class StillStarting : public AttachError {
 public:
  using AttachError::AttachError;
};

// Throws AttachError where the program has no libc that a call can be injected into: a static program, musl, another
// processor's program in an emulator, a program under valgrind or another translator of code.
void check_libc(const TracedProcess& process, const std::vector<MappedRange>& mappings);

}  // namespace culprit::report
