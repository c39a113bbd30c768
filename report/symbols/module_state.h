// How far the file of a module could be used.
#pragma once

namespace culprit::report {

enum class ModuleState {
  kFound,
  kNoFile,      // the file is gone
  kChanged,     // the file's build ID has changed: its symbols would be wrong
  kUnreadable,  // not an ELF file, no permission
};

// "found", "no-file", ...: in merged files.
inline const char* module_state_name(ModuleState state) {
  switch (state) {
    case ModuleState::kFound:
      return "found";
    case ModuleState::kNoFile:
      return "no-file";
    case ModuleState::kChanged:
      return "changed";
    case ModuleState::kUnreadable:
      break;
  }
  return "unreadable";
}

}  // namespace culprit::report
