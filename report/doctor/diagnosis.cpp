#include "report/doctor/diagnosis.h"

#include "report/base/words.h"

namespace culprit::report {

const char* holder_kind_name(HolderKind kind) {
  switch (kind) {
    case HolderKind::kProcess:
      return "process";
    case HolderKind::kGhost:
      return "ghost";
    case HolderKind::kReusedPid:
      return "reused-pid";
    case HolderKind::kZombie:
      return "zombie";
    case HolderKind::kStuck:
      return "stuck";
    case HolderKind::kHidden:
      return "hidden";
    case HolderKind::kFilesOnly:
      return "files-only";
  }
  return "process";
}

const char* compute_mode_name(ComputeMode mode) {
  switch (mode) {
    case ComputeMode::kUnknown:
      return "unknown";
    case ComputeMode::kDefault:
      return "default";
    case ComputeMode::kExclusiveThread:
      return "exclusive-thread";
    case ComputeMode::kProhibited:
      return "prohibited";
    case ComputeMode::kExclusiveProcess:
      return "exclusive-process";
  }
  return "unknown";
}

const char* gpu_use_name(GpuUse use) {
  switch (use) {
    case GpuUse::kCompute:
      return "compute";
    case GpuUse::kGraphics:
      return "graphics";
    case GpuUse::kMps:
      return "mps";
  }
  return "compute";
}

std::string process_text(const ProcessFacts& process) {
  return std::to_string(process.pid) + " (" + printable(process.name) + ")";
}

}  // namespace culprit::report
