#include "report/doctor/holders.h"

#include <algorithm>

#include "report/base/shell_words.h"
#include "report/base/words.h"

namespace culprit::report {
namespace {

// Programs whose purpose requires the GPU's files. `silent`: they allocate nothing and keep nothing of other processes.
struct Role {
  const char* program;
  const char* role;
  bool silent;
};
constexpr Role kRoles[] = {
    {"nvidia-persistenced", "persistence daemon", true},
    {"nvidia-cuda-mps-server", "MPS server", false},
    {"nvidia-cuda-mps-control", "MPS control daemon", true},
    {"nvidia-fabricmanager", "fabric manager", true},
    {"nv-fabricmanager", "fabric manager", true},
    {"nv-hostengine", "DCGM monitor", true},
    {"dcgm-exporter", "DCGM monitor", true},
    {"nvidia-smi", "monitor", true},
    {"nvtop", "monitor", true},
    {"nvidia-device-plugin", "Kubernetes device plugin", true},
    {"Xorg", "X server", false},
    {"X", "X server", false},
    {"Xwayland", "X server", false},
    {"gnome-shell", "desktop", false},
    {"kwin_wayland", "desktop", false},
};

const Role* role_of(const ProcessFacts& process) {
  const std::string first = process.command.empty() ? process.name : process.command.front();
  const std::string program = first.substr(first.rfind('/') + 1);
  for (const Role& role : kRoles) {
    if (program == role.program) return &role;
  }
  for (const Role& role : kRoles) {
    // The kernel truncates names to 15 bytes.
    if (process.name == std::string(role.program).substr(0, 15)) return &role;
  }
  return nullptr;
}

void set_role(const ProcessFacts& process, Holder* holder) {
  const Role* role = role_of(process);
  if (role == nullptr) return;
  holder->role = role->role;
  holder->only_watches = role->silent;
}

// The command as typed in a shell; "COMMAND" when it is too long.
std::string command_to_type(const ProcessFacts& process) {
  constexpr std::size_t kLongest = 200;
  const std::string text = shell_command(process.command);
  return text.empty() || text.size() > kLongest ? "COMMAND" : text;
}

// A child that outlived its parent stays in the group and session that the parent led.
bool is_relative(const ProcessFacts& process, std::uint32_t pid) {
  return process.parent == pid || process.group == pid || process.session == pid;
}

std::string joined(const std::vector<ProcessFacts>& processes, const std::string& between) {
  std::string text;
  for (const ProcessFacts& process : processes) text += (text.empty() ? "" : between) + std::to_string(process.pid);
  return text;
}

// The thread to blame for a process that cannot end: one that waits in the driver, if its stack is known.
const StuckThread* stuck_thread(const ProcessFacts& process) {
  const StuckThread* found = nullptr;
  for (const StuckThread& thread : process.stuck_threads) {
    if (thread.in_driver()) return &thread;
    if (found == nullptr && !process.live_threads.empty()) found = &thread;
  }
  if (found == nullptr && process.state == 'D' && !process.stuck_threads.empty()) found = &process.stuck_threads[0];
  return found;
}

void explain_stuck(const ProcessFacts& process, const StuckThread& thread, bool privileged, Holder* holder) {
  holder->kind = HolderKind::kStuck;
  const std::string who = thread.tid == process.pid ? "It" : "Its thread " + std::to_string(thread.tid);
  holder->explanation = who + " waits in the kernel" + (thread.in_driver() ? ", in NVIDIA's driver" : "") +
                        (thread.wait_channel.empty() ? "" : " (" + printable(thread.wait_channel) + ")") +
                        ", and cannot be interrupted: a signal, SIGKILL too, works only when the call returns. If it "
                        "stays so, the GPU or the machine must be restarted.";
  if (thread.kernel_stack.empty() && !privileged) {
    holder->next.push_back("sudo cat /proc/" + std::to_string(process.pid) + "/task/" + std::to_string(thread.tid) +
                           "/stack");
  }
}

// "767 (forkhold), 768 (forkhold) and 769 (sleep)".
std::string enumerated(const std::vector<ProcessFacts>& processes) {
  std::string text;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (i != 0) text += i + 1 == processes.size() ? " and " : ", ";
    text += process_text(processes[i]);
  }
  return text;
}

std::string charged(const Holder& holder) {
  return holder.bytes ? format_bytes(*holder.bytes) + " are charged" : std::string("Memory is charged");
}

// Names the keepers and says how to get the memory back. `charged_too`: NVML also charges memory to the keepers
// themselves.
void name_keepers(Holder* holder, const std::string& beginning, bool charged_too) {
  const std::vector<ProcessFacts>& keepers = holder->keepers;
  const bool one = keepers.size() == 1;
  const std::string kill = "kill " + joined(keepers, " ");
  std::string who = enumerated(keepers);
  if (holder->certain) {
    who = std::string(one ? "Its child " : "Its children ") + who + (one ? " still holds" : " still hold") +
          " the GPU's files.";
  } else {
    who = std::string(one ? "Process " : "Processes ") + who + (one ? " holds" : " hold") + " the GPU's files" +
          (charged_too ? "" : std::string(" and ") + (one ? "is" : "are") + " charged with nothing") +
          ": most likely " + (one ? "a child that inherited them." : "children that inherited them.");
  }
  holder->explanation = beginning + " " + who +
                        (holder->certain ? " The memory comes back when " : " If so, the memory comes back when ") +
                        (one ? std::to_string(keepers.front().pid) + " ends" : std::string("all of them have ended")) +
                        ": " + kill + ".";
  // A kill command is suggested only for certain keepers.
  holder->next.push_back(holder->certain ? kill : "ps -fp " + joined(keepers, ","));
}

}  // namespace

Holder holder_by_files(const ProcessFacts& process, bool privileged) {
  Holder holder;
  holder.kind = HolderKind::kFilesOnly;
  holder.pid = process.pid;
  holder.process = process;
  set_role(process, &holder);
  const StuckThread* const stuck = stuck_thread(process);
  if (stuck != nullptr) {
    explain_stuck(process, *stuck, privileged, &holder);
  } else if (process.state == 'Z' && !process.live_threads.empty()) {
    holder.explanation = "Its main thread has ended and " + std::to_string(process.live_threads.size()) +
                         " of its threads still run. Its files close when they end.";
    holder.next.push_back("kill " + std::to_string(process.pid));
  }
  return holder;
}

HolderFinder::HolderFinder(const NvmlFacts& nvml, const ProcFacts& proc, const GpuFacts& gpu)
    : proc_(proc), gpu_(gpu), numbers_(numbers_in(nvml)), named_(numbers_) {
  for (const std::uint32_t number : numbers_) {
    const ProcessFacts* const process = process_of(proc, number, numbers_);
    if (process != nullptr) named_.insert(process->pid);
  }
  for (const auto& [pid, process] : proc.processes) {
    const Role* role = role_of(process);
    if (role != nullptr && role->silent) continue;
    if (holds_this_gpu(process)) keepers_.push_back(&process);
  }
}

bool HolderFinder::holds_this_gpu(const ProcessFacts& process) const {
  if (!gpu_.minor) return process.holds_files();
  return process.gpus.count(*gpu_.minor) != 0;
}

// `what`: why the process is gone. Searches for the keepers of its memory. A process that NVML charges nothing has the
// GPU's files open only as a keeper; one with memory of its own may have other reasons (a CUDA program opens the files
// of every GPU).
void HolderFinder::explain_gone(Holder* holder, const std::string& what) const {
  std::vector<ProcessFacts> strangers;
  std::vector<ProcessFacts> charged_relatives;
  for (const ProcessFacts* keeper : keepers_) {
    if (keeper->pid == holder->pid) continue;
    const bool relative = is_relative(*keeper, holder->pid);
    const bool named = named_.count(keeper->pid) != 0;
    if (relative && !named) holder->keepers.push_back(*keeper);
    if (relative && named) charged_relatives.push_back(*keeper);
    if (!relative && !named) strangers.push_back(*keeper);
  }
  holder->certain = !holder->keepers.empty();
  if (holder->keepers.empty()) holder->keepers = strangers;
  const bool charged_too = holder->keepers.empty();
  if (holder->keepers.empty()) holder->keepers = charged_relatives;
  const std::string beginning = charged(*holder) + " to PID " + std::to_string(holder->pid) + ", " + what;
  if (!holder->keepers.empty()) {
    name_keepers(holder, beginning, charged_too);
    return;
  }
  holder->explanation = beginning + " ";
  if (proc_.incomplete()) {
    holder->explanation += "The processes that keep its files open are unknown: some processes could not be examined.";
    if (!proc_.privileged) holder->next.push_back("sudo culprit doctor --gpu " + std::to_string(gpu_.index));
  } else if (!proc_.host_view) {
    holder->explanation += "No process that can be seen from here keeps its files open: look on the host.";
  } else {
    holder->explanation +=
        "No process has the GPU's files open: the driver is about to release the memory, or has lost it. If it stays, "
        "reset the GPU.";
    holder->next.push_back("sudo nvidia-smi --gpu-reset -i " + std::to_string(gpu_.index));
  }
}

void HolderFinder::explain_zombie(Holder* holder) const {
  const ProcessFacts& process = *holder->process;
  const StuckThread* const stuck = stuck_thread(process);
  if (stuck != nullptr) {
    explain_stuck(process, *stuck, proc_.privileged, holder);
    return;
  }
  if (!process.live_threads.empty()) {
    holder->explanation = charged(*holder) + " to " + process_text(process) + ", whose main thread has ended while " +
                          std::to_string(process.live_threads.size()) +
                          " of its threads still run. The memory comes back when they end: kill " +
                          std::to_string(process.pid) + ".";
    holder->next.push_back("kill " + std::to_string(process.pid));
    return;
  }
  const std::string parent =
      std::to_string(process.parent) + (process.parent_name.empty() ? "" : " (" + printable(process.parent_name) + ")");
  explain_gone(holder, "a zombie: it has ended, and its parent " + parent +
                           " has not collected it. A zombie holds no memory itself.");
}

void HolderFinder::explain_living(Holder* holder) const {
  const ProcessFacts& process = *holder->process;
  const StuckThread* const stuck = stuck_thread(process);
  if (stuck != nullptr) {
    explain_stuck(process, *stuck, proc_.privileged, holder);
    return;
  }
  if (holder->role == "MPS server") {
    holder->explanation =
        "It holds the memory of its clients. After a client was killed, its memory comes back when the server notices, "
        "at the latest when it ends (echo quit | nvidia-cuda-mps-control).";
    return;
  }
  if (!holder->role.empty()) return;
  if (!process.dump.empty()) {
    // The path of the dump is relative to the root that the process sees.
    const std::string root = process.container.found() ? "/proc/" + std::to_string(process.pid) + "/root" : "";
    holder->next.push_back("culprit report " + shell_path(root + process.dump));
  } else if (holder->use == GpuUse::kCompute) {
    holder->explanation =
        "Its memory is released when it frees it or ends. Started with culprit run it shows its allocations.";
    holder->next.push_back("culprit run -- " + command_to_type(process));
  }
}

Holder HolderFinder::named(const GpuProcess& process) const {
  Holder holder;
  holder.pid = process.pid;
  holder.use = process.use;
  holder.bytes = process.bytes;
  holder.gpu_instance = process.gpu_instance;
  holder.compute_instance = process.compute_instance;
  const ProcessFacts* found = process_of(proc_, process.pid, numbers_);
  if (found != nullptr) holder.process = *found;

  if (found == nullptr) {
    // Only if every process of the machine is visible does "not there" mean "has ended".
    if (proc_.host_view && !proc_.hides_others && proc_.problem.empty()) {
      holder.kind = HolderKind::kGhost;
      explain_gone(&holder, "which has ended.");
      return holder;
    }
    const bool relative = std::any_of(keepers_.begin(), keepers_.end(),
                                      [&](const ProcessFacts* keeper) { return is_relative(*keeper, process.pid); });
    const bool stranger = std::any_of(keepers_.begin(), keepers_.end(),
                                      [&](const ProcessFacts* keeper) { return named_.count(keeper->pid) == 0; });
    if (relative || (stranger && !proc_.hides_others)) {
      holder.kind = HolderKind::kGhost;
      explain_gone(&holder, relative ? "which has ended."
                                     : "which cannot be seen from here: it has ended, or it runs outside of this "
                                       "container.");
      return holder;
    }
    holder.kind = HolderKind::kHidden;
    holder.explanation = proc_.hides_others
                             ? "Only its number is known: " + proc_.root + " hides the processes of other users."
                             : "Only its number is known: it runs in another container or on the host.";
    if (proc_.hides_others && !proc_.privileged)
      holder.next.push_back("sudo culprit doctor --gpu " + std::to_string(gpu_.index));
    return holder;
  }
  if (found->state == 'Z') {
    holder.kind = HolderKind::kZombie;
    explain_zombie(&holder);
    return holder;
  }
  if (!found->uses_gpu() && found->unreadable.empty()) {
    holder.process.reset();
    const std::string now =
        "its number is now that of " + printable(found->name) + ", which has no file of a GPU open.";
    if (proc_.host_view) {
      holder.kind = HolderKind::kReusedPid;
      explain_gone(&holder, "which has ended; " + now);
    } else {
      holder.kind = HolderKind::kHidden;
      holder.explanation = "Only its number is known: it is of another PID namespace, or it has ended.";
    }
    return holder;
  }
  set_role(*found, &holder);
  explain_living(&holder);
  return holder;
}

std::vector<Holder> HolderFinder::files_only(const std::vector<Holder>& known) const {
  std::set<std::uint32_t> told = named_;
  for (const Holder& holder : known) {
    for (const ProcessFacts& keeper : holder.keepers) told.insert(keeper.pid);
  }
  std::vector<Holder> result;
  for (const auto& [pid, process] : proc_.processes) {
    if (told.count(pid) == 0 && holds_this_gpu(process)) result.push_back(holder_by_files(process, proc_.privileged));
  }
  return result;
}

}  // namespace culprit::report
