// Determines the kind of each holder, and which processes keep the memory of one that has ended.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "report/doctor/diagnosis.h"

namespace culprit::report {

// For one GPU. Keeps references to its arguments.
class HolderFinder {
 public:
  HolderFinder(const NvmlFacts& nvml, const ProcFacts& proc, const GpuFacts& gpu);

  // The holder for a line of NVML's list.
  Holder named(const GpuProcess& process) const;

  // Processes with this GPU's files open that neither NVML nor a holder in `known` (as a keeper) names.
  std::vector<Holder> files_only(const std::vector<Holder>& known) const;

 private:
  void explain_gone(Holder* holder, const std::string& what) const;
  void explain_living(Holder* holder) const;
  void explain_zombie(Holder* holder) const;
  bool holds_this_gpu(const ProcessFacts& process) const;

  const ProcFacts& proc_;
  const GpuFacts& gpu_;
  const std::set<std::uint32_t> numbers_;     // that NVML names, on any GPU
  std::set<std::uint32_t> named_;             // these, and the processes here that are meant
  std::vector<const ProcessFacts*> keepers_;  // may keep the memory of a process that has ended
};

// The holder for a process that is known only by its open files of a GPU. `privileged`: culprit runs as root.
Holder holder_by_files(const ProcessFacts& process, bool privileged);

}  // namespace culprit::report
