#include "report/doctor/diagnosis.h"

#include <algorithm>

#include "report/base/words.h"

namespace culprit::report {

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

bool advises_reset(const GpuDiagnosis& diagnosis) {
  const auto says_so = [](const std::string& text) { return text.find("reset") != std::string::npos; };
  return std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(), says_so) ||
         std::any_of(diagnosis.next.begin(), diagnosis.next.end(), says_so) ||
         std::any_of(diagnosis.xids.begin(), diagnosis.xids.end(),
                     [&](const Xid& xid) { return says_so(xid.advice); }) ||
         std::any_of(diagnosis.holders.begin(), diagnosis.holders.end(),
                     [](const Holder& holder) { return holder.kind == HolderKind::kStuck; });
}

MigUse use_of(const GpuFacts& gpu, const MigDevice& mig) {
  MigUse use;
  for (const GpuProcess& process : gpu.processes) {
    if (process.gpu_instance != mig.gpu_instance || process.compute_instance != mig.compute_instance) continue;
    ++use.processes;
    use.bytes += process.bytes.value_or(0);
  }
  return use;
}

std::string process_text(const ProcessFacts& process) {
  return std::to_string(process.pid) + " (" + printable(process.name) + ")";
}

}  // namespace culprit::report
