#include "report/doctor/explain.h"

#include <algorithm>
#include <set>

#include "report/base/words.h"
#include "report/doctor/holders.h"
#include "report/doctor/mps.h"
#include "report/doctor/nvml_users.h"
#include "report/model/questions.h"

namespace culprit::report {
namespace {

// An unused GPU shows a few MiB as used; this much is worth a sentence.
constexpr std::uint64_t kWorthASentence = std::uint64_t{64} << 20;

void add_modes(const GpuFacts& gpu, GpuDiagnosis* diagnosis) {
  const std::string index = std::to_string(gpu.index);
  const auto find = [diagnosis](const std::string& text) { diagnosis->findings.push_back(text); };
  switch (gpu.compute_mode) {
    case ComputeMode::kExclusiveProcess:
    case ComputeMode::kExclusiveThread:
      find("compute mode is " + std::string(compute_mode_name(gpu.compute_mode)) +
           ": while one process has a context here, every other gets \"CUDA-capable device(s) is/are busy or "
           "unavailable\", however much memory is free (sudo nvidia-smi -i " +
           index + " -c DEFAULT)");
      break;
    case ComputeMode::kProhibited:
      find("compute mode is prohibited: no CUDA program can use this GPU (sudo nvidia-smi -i " + index +
           " -c DEFAULT)");
      break;
    default:
      break;
  }
  if (gpu.ecc_errors.value_or(0) != 0) {
    find(plural(*gpu.ecc_errors, "uncorrected ECC error", "uncorrected ECC errors") +
         " since the driver was loaded: programs that were running then failed");
  }
  if (gpu.retirement_pending)
    find("memory pages wait to be retired: reset the GPU or reboot (nvidia-smi --gpu-reset -i " + index + ")");
  if (gpu.remap_pending)
    find("memory rows wait to be remapped: reset the GPU or reboot (nvidia-smi --gpu-reset -i " + index + ")");
  if (gpu.remap_failed) find("remapping of bad memory rows has failed: this GPU is to be replaced");
  if (gpu.ecc && gpu.ecc_pending && *gpu.ecc != *gpu.ecc_pending)
    find("ECC will be " + std::string(*gpu.ecc_pending ? "on" : "off") + " after the next reset: total memory changes");
  if (gpu.mig_pending && *gpu.mig_pending != gpu.mig) {
    find("MIG will be " + std::string(*gpu.mig_pending ? "on" : "off") +
         " after the next reset, which waits until no process uses this GPU");
  }
  if (gpu.mig && gpu.mig_devices.empty())
    find("MIG is on and has no instance that can be seen from here: no CUDA program can use this GPU");
}

class GpuExplainer {
 public:
  GpuExplainer(const NvmlFacts& nvml, const ProcFacts& proc, const std::map<std::uint32_t, InsideByGpu>& insides,
               const GpuFacts& gpu)
      : proc_(proc), insides_(insides), finder_(nvml, proc, gpu) {
    diagnosis_.gpu = gpu;
  }

  GpuDiagnosis explain() {
    for (const GpuProcess& named : diagnosis_.gpu.processes) {
      Holder holder = finder_.named(named);
      add_inside(&holder);
      diagnosis_.named += holder.bytes.value_or(0);
      diagnosis_.holders.push_back(std::move(holder));
    }
    for (Holder& holder : finder_.files_only(diagnosis_.holders)) {
      add_inside(&holder);
      diagnosis_.holders.push_back(std::move(holder));
    }
    std::stable_sort(diagnosis_.holders.begin(), diagnosis_.holders.end(),
                     [](const Holder& a, const Holder& b) { return a.bytes.value_or(0) > b.bytes.value_or(0); });
    if (diagnosis_.gpu.memory) {
      const std::uint64_t used = diagnosis_.gpu.memory->used();
      diagnosis_.unexplained = used > diagnosis_.named ? used - diagnosis_.named : 0;
      if (diagnosis_.named > used + kWorthASentence) {
        diagnosis_.findings.push_back("NVML charges " + format_bytes(diagnosis_.named - used) +
                                      " more to processes than is used: memory that several of them share is counted "
                                      "for each");
      }
    }
    add_modes(diagnosis_.gpu, &diagnosis_);
    add_unexplained();
    add_next();
    add_reset();
    return std::move(diagnosis_);
  }

 private:
  void add_inside(Holder* holder) {
    if (!holder->process || holder->kind == HolderKind::kReusedPid) return;
    const auto known = insides_.find(holder->process->pid);
    if (known == insides_.end()) return;
    std::vector<std::string> uuids = {diagnosis_.gpu.uuid};
    for (const MigDevice& mig : diagnosis_.gpu.mig_devices) {
      if (mig.gpu_instance == holder->gpu_instance) uuids.push_back(mig.uuid);
    }
    uuids.emplace_back();
    for (const std::string& uuid : uuids) {
      const auto inside = known->second.find(uuid);
      if (inside == known->second.end()) continue;
      holder->inside = inside->second;
      break;
    }
  }

  // Whether a process may have memory here that NVML does not report.
  bool has_suspect() const {
    return std::any_of(diagnosis_.holders.begin(), diagnosis_.holders.end(), [](const Holder& holder) {
      return holder.kind == HolderKind::kFilesOnly && !holder.only_watches;
    });
  }
  bool only_watched() const {
    return std::all_of(diagnosis_.holders.begin(), diagnosis_.holders.end(),
                       [](const Holder& holder) { return holder.only_watches; });
  }

  void add_unexplained() {
    if (diagnosis_.unexplained.value_or(0) < kWorthASentence) return;
    const std::string index = std::to_string(diagnosis_.gpu.index);
    std::string text = format_bytes(*diagnosis_.unexplained) + " are used and charged to no process: ";
    if (has_suspect()) {
      text += "most likely held by the processes that have the GPU's files open";
    } else if (!diagnosis_.gpu.processes_known) {
      text += "NVML did not list the processes";
    } else if (proc_.incomplete()) {
      text += "some processes could not be examined for open files of the GPU";
      if (!proc_.privileged) diagnosis_.next.push_back("sudo culprit doctor --gpu " + index);
    } else if (!proc_.host_view) {
      text += "most likely by processes outside of this container; ask again on the host";
    } else if (only_watched()) {
      text += "no process that allocates has its files open, so the driver itself keeps it; if it stays, reset the GPU";
      diagnosis_.next.push_back("sudo nvidia-smi --gpu-reset -i " + index);
    } else {
      text += "the driver's own memory, and memory that several processes share";
    }
    diagnosis_.findings.push_back(text);
  }

  void add_next() {
    std::set<std::string> told(diagnosis_.next.begin(), diagnosis_.next.end());
    for (const Holder& holder : diagnosis_.holders) {
      for (const std::string& command : holder.next) {
        if (told.insert(command).second) diagnosis_.next.push_back(command);
      }
    }
    if (!diagnosis_.gpu.memory) return;
    diagnosis_.idle = only_watched() && diagnosis_.unexplained.value_or(0) < kWorthASentence;
    if (diagnosis_.idle) {
      diagnosis_.findings.push_back(
          "nothing holds memory here now: an out-of-memory error on this GPU came from the program "
          "itself, or from one that has ended since");
      diagnosis_.next.push_back("culprit run -- COMMAND");
    }
  }

  void add_reset() {
    std::set<std::uint32_t> pids;
    bool numbers_only = false;
    for (const Holder& holder : diagnosis_.holders) {
      if (holder.process) pids.insert(holder.process->pid);
      numbers_only = numbers_only || holder.kind == HolderKind::kHidden;
      for (const ProcessFacts& keeper : holder.keepers) pids.insert(keeper.pid);
    }
    diagnosis_.reset.pids.assign(pids.begin(), pids.end());
    diagnosis_.reset.complete =
        diagnosis_.gpu.processes_known && proc_.host_view && !proc_.incomplete() && !numbers_only;
  }

  const ProcFacts& proc_;
  const std::map<std::uint32_t, InsideByGpu>& insides_;
  const HolderFinder finder_;
  GpuDiagnosis diagnosis_;
};

void add_answers(GpuDiagnosis* diagnosis) {
  std::set<Question> questions;
  for (const Holder& holder : diagnosis->holders) {
    const bool ended = holder.kind == HolderKind::kGhost || holder.kind == HolderKind::kReusedPid ||
                       holder.kind == HolderKind::kZombie;
    if (ended) questions.insert(Question::kMemoryWithoutProcess);
    if (holder.kind == HolderKind::kProcess && holder.use == GpuUse::kCompute && holder.role.empty())
      questions.insert(Question::kMemoryNotCleared);
  }
  if (diagnosis->unexplained.value_or(0) >= kWorthASentence) questions.insert(Question::kMemoryWithoutProcess);
  if (diagnosis->idle) questions.insert(Question::kNothingRunning);
  if (advises_reset(*diagnosis)) questions.insert(Question::kReset);
  for (const Question question : questions) diagnosis->answers.push_back(answer_link(question));
}

// One holder for each GPU that a process uses, as far as its dump tells them.
void add_holders_by_files(const ProcFacts& proc, const std::map<std::uint32_t, InsideByGpu>& insides,
                          Diagnosis* diagnosis) {
  for (const auto& [pid, process] : proc.processes) {
    if (!process.holds_files()) continue;
    const Holder holder = holder_by_files(process, proc.privileged);
    const auto known = insides.find(pid);
    if (known == insides.end() || known->second.empty()) {
      diagnosis->holders.push_back(holder);
      continue;
    }
    for (const auto& [uuid, inside] : known->second) {
      diagnosis->holders.push_back(holder);
      diagnosis->holders.back().inside = inside;
    }
  }
}

void add_tables(const NvmlFacts& nvml, const ProcFacts& proc, const std::map<std::uint32_t, InsideByGpu>& insides,
                Diagnosis* diagnosis) {
  // In the order of `users_of`: each GPU, then its MIG devices.
  std::vector<DeviceTable> tables = tables_of(users_of(nvml, proc), insides);
  auto next = tables.begin();
  for (GpuDiagnosis& gpu : diagnosis->gpus) {
    for (std::size_t i = 0; i < 1 + gpu.gpu.mig_devices.size(); ++i) gpu.tables.push_back(std::move(*next++));
  }
}

void add_xids(const KernelLog& log, Diagnosis* diagnosis) {
  for (const Xid& xid : log.xids) {
    const auto gpu = std::find_if(diagnosis->gpus.begin(), diagnosis->gpus.end(),
                                  [&](const GpuDiagnosis& one) { return one.gpu.pci == xid.pci; });
    (gpu != diagnosis->gpus.end() ? gpu->xids : diagnosis->xids).push_back(xid);
  }
}

void add_unseen(const NvmlFacts& nvml, const ProcFacts& proc, Diagnosis* diagnosis) {
  std::vector<std::string>& unseen = diagnosis->unseen;
  const std::string as_root = proc.privileged ? "" : "; try as root";
  if (!nvml.available) unseen.push_back("the memory in use and its holders: NVML cannot be used: " + nvml.problem);
  for (const std::string& line : nvml.unseen) unseen.push_back(line);
  if (nvml.available && nvml.gpus.empty() && nvml.unseen.empty())
    unseen.push_back("any GPU: the driver runs and shows none here");
  for (const GpuFacts& gpu : nvml.gpus) {
    for (const std::string& line : gpu.unseen) unseen.push_back("GPU " + std::to_string(gpu.index) + ": " + line);
  }
  if (!proc.problem.empty()) {
    unseen.push_back("any process: " + proc.problem);
    return;
  }
  if (!proc.host_view) {
    unseen.push_back(
        "processes outside of this PID namespace: culprit runs in a container that does not share the host's (docker "
        "run --pid=host; hostPID: true)");
  }
  if (proc.hides_others)
    unseen.push_back("processes of other users: " + proc.root + " hides them (mounted with hidepid" + as_root + ")");
  if (proc.unreadable != 0) {
    unseen.push_back("the open files of " + plural(proc.unreadable, "process", "processes") + ": " +
                     proc.unreadable_reason +
                     (proc.privileged ? ", for root too (a security module, or a user namespace)" : " (try as root)"));
  }
}

}  // namespace

Diagnosis explain(const NvmlFacts& nvml, const ProcFacts& proc, const std::map<std::uint32_t, InsideByGpu>& insides,
                  const SystemFacts& machine) {
  Diagnosis diagnosis;
  diagnosis.host = machine.name;
  diagnosis.driver = nvml.driver.empty() ? machine.driver.version : nvml.driver;
  diagnosis.open_modules = machine.driver.open;
  diagnosis.cuda = nvml.cuda;
  diagnosis.known_issues = known_issues_of({diagnosis.driver, diagnosis.open_modules});
  diagnosis.uptime_seconds = proc.uptime_seconds;
  diagnosis.nvml = nvml.available;
  diagnosis.host_view = proc.host_view;
  for (const GpuFacts& gpu : nvml.gpus) diagnosis.gpus.push_back(GpuExplainer(nvml, proc, insides, gpu).explain());
  add_tables(nvml, proc, insides, &diagnosis);
  if (nvml.gpus.empty()) add_holders_by_files(proc, insides, &diagnosis);
  add_xids(machine.log, &diagnosis);
  add_mps(nvml, proc, machine.mps_pipes, &diagnosis);
  for (GpuDiagnosis& gpu : diagnosis.gpus) add_answers(&gpu);
  add_unseen(nvml, proc, &diagnosis);
  if (!machine.log.problem.empty()) {
    diagnosis.unseen.push_back("Xid errors of the driver: " + machine.log.problem +
                               " (sudo dmesg | grep 'NVRM: Xid', on the host)");
  }
  return diagnosis;
}

}  // namespace culprit::report
