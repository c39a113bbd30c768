// How far the file of a module could be used.
#pragma once

namespace culprit::report {

enum class ModuleState {
  kFound,
  kNoFile,      // the file is gone
  kChanged,     // the file's build ID has changed: its symbols would be wrong
  kUnreadable,  // not an ELF file, no permission
};

}  // namespace culprit::report
