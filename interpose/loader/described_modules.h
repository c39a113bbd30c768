// The modules of the program's start, described once for all steps of the preparation: to walk the loader's list and to
// read each module's dynamic section for each step took a third of the time that loading this library costs a process.
#pragma once

#include "interpose/loader/loader_modules.h"

namespace culprit {

// While it exists, any_module() of this thread visits the modules that were mapped when it was made, without a walk; if
// `wanted`, and if there are at most 128. A dlclose() that begins meanwhile waits: see KeepsModules. At most one at a
// time. With signals blocked, because the dlopen() of a handler would not be seen.
class KeptDescriptions {
 public:
  explicit KeptDescriptions(bool wanted);
  ~KeptDescriptions();
  KeptDescriptions(const KeptDescriptions&) = delete;
  KeptDescriptions& operator=(const KeptDescriptions&) = delete;

 private:
  KeepsModules keeps_;
};

// Whether a KeptDescriptions of this thread knows all modules of the program, also those without a GNU hash table.
bool all_are_described();

}  // namespace culprit
