// Tells what kind of holder a process is, and who keeps the memory of one that has ended.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "report/doctor/diagnosis.h"

namespace culprit {

// Of one GPU. Keeps references to its arguments.
class HolderFinder {
 public:
  HolderFinder(const NvmlFacts& nvml, const ProcFacts& proc, const GpuFacts& gpu);

  // The holder behind a line of NVML's list.
  Holder named(const GpuProcess& process) const;

  // Processes that have this GPU's files open, that NVML does not name, and that no holder in `known` has as a keeper.
  std::vector<Holder> files_only(const std::vector<Holder>& known) const;

 private:
  void explain_gone(Holder* holder, const std::string& what) const;
  void explain_living(Holder* holder) const;
  void explain_zombie(Holder* holder) const;
  bool holds_this_gpu(const ProcessFacts& process) const;

  const ProcFacts& proc_;
  const GpuFacts& gpu_;
  std::set<std::uint32_t> named_;             // by NVML, on any GPU
  std::vector<const ProcessFacts*> keepers_;  // might keep what belonged to one that has ended
};

// A process that is known only because it has a GPU's files open.
Holder holder_by_files(const ProcessFacts& process);

}  // namespace culprit
