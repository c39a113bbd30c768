#include "report/attach/traced_process.h"

#include <elf.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

namespace culprit::report {
namespace {

// CAP_SYS_PTRACE of the kernel's include/uapi/linux/capability.h.
constexpr int kCapabilityToTrace = 19;

std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" \t\n")); }

std::uint64_t capabilities(const ProcessFolder& process, const std::string& field) {
  return std::strtoull(process.status(field).c_str(), nullptr, 16);
}

std::string effective_user(const ProcessFolder& process) {
  std::istringstream ids(process.status("Uid"));
  std::string real, effective;
  ids >> real >> effective;
  return effective;
}

std::string user_name(const std::string& uid) {
  const passwd* known = ::getpwuid(static_cast<uid_t>(std::strtoul(uid.c_str(), nullptr, 10)));
  return known != nullptr ? known->pw_name : "user " + uid;
}

bool same_place(const std::string& left, const std::string& right) {
  struct stat a = {};
  struct stat b = {};
  return ::stat(left.c_str(), &a) == 0 && ::stat(right.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace

TracedProcess::TracedProcess(pid_t pid, std::string proc)
    : pid_(pid), proc_(std::move(proc)), folder_(proc_, std::to_string(pid)), own_(proc_, "self") {
  const std::optional<ProcessStat> stat = folder_.stat();
  if (pid <= 0 || !stat) {
    throw AttachError(
        "there is no process " + std::to_string(pid) +
        " here. A container numbers its processes itself: use the number that ps shows where culprit runs");
  }
  // Threads have folders, too; the target is the thread group, whose id users know as the pid.
  const std::string leader = folder_.status("Tgid");
  if (!leader.empty() && leader != std::to_string(pid))
    throw AttachError(std::to_string(pid) + " is a thread of process " + leader + ": use that number");
  start_time_ = stat->start_ticks;
}

std::string TracedProcess::name() const { return folder_.name() + " [" + std::to_string(pid_) + "]"; }

bool TracedProcess::is_alive() const {
  const std::optional<ProcessStat> stat = folder_.stat();
  return stat && !stat->has_ended() && stat->start_ticks == start_time_;
}

void TracedProcess::check_attachable() const {
  if (pid_ == ::getpid()) throw AttachError("this process is culprit itself: name another one");
  const ProcessStat stat = folder_.stat().value_or(ProcessStat());
  if (stat.has_ended()) {
    throw AttachError(name() + " has ended, and its parent, process " + std::to_string(stat.parent) +
                      ", has not collected it yet (a zombie)");
  }
  if (stat.kernel_thread) throw AttachError(name() + " is a thread of the kernel: nothing can be loaded into it");
  if (stat.state == 'T')
    throw AttachError(name() + " is stopped: continue it first (kill -CONT " + std::to_string(pid_) + ")");
  const std::string tracer = folder_.status("TracerPid");
  if (!tracer.empty() && tracer != "0") {
    const std::string who = ProcessFolder(proc_, tracer).name();
    throw AttachError(name() + " is traced by " + (who.empty() ? "process " : who + ", process ") + tracer +
                      ": a debugger or strace; let it detach first");
  }
  const std::string uid = first_word(folder_.status("Uid"));
  const std::string own = effective_user(own_);
  if (own != "0" && uid != own)
    throw AttachError(name() + " belongs to " + user_name(uid) + ": run culprit as that user, or as root");
  if (folder_.status("x86_Thread_features").find("shstk") != std::string::npos)
    throw AttachError(name() + " runs with shadow stacks, which forbid an injected call: start it with culprit run");

  const std::string head = folder_.program_head(EI_NIDENT);
  if (head.size() == EI_NIDENT && (head.compare(0, SELFMAG, ELFMAG) != 0 || head[EI_CLASS] != ELFCLASS64))
    throw AttachError(name() + " is not a 64-bit program: libculprit.so needs one");
}

// Why tracing is refused to a user without root, or to root without the capability.
std::string TracedProcess::why_not_root() const {
  const std::string scope = ptrace_scope(proc_);
  const std::string as_root = "run culprit as root (sudo culprit attach " + std::to_string(pid_) + ")";
  if (effective_user(own_) == "0") {
    return "in a container it needs the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE); or run culprit on the "
           "host";
  }
  const std::optional<std::uint32_t> owner = folder_.owner();
  if (owner && std::to_string(*owner) != first_word(folder_.status("Uid"))) {
    return "it has made itself undumpable, as programs with secrets or a changed user do, or its file may not "
           "be read: " +
           as_root;
  }
  if (scope == "1" || scope == "2") {
    return "/proc/sys/kernel/yama/ptrace_scope is " + scope + ", so " + as_root +
           ", or start the program with culprit run";
  }
  if ((capabilities(folder_, "CapPrm") & ~capabilities(own_, "CapPrm")) != 0)
    return "it has capabilities that culprit does not have: " + as_root;
  return as_root;
}

// Why tracing is refused even with the capability SYS_PTRACE.
std::string TracedProcess::why_not_even_root() const {
  if (own_.status("Seccomp") == "2") {
    return "a seccomp filter around culprit forbids it (docker run --security-opt seccomp=unconfined lifts Docker's); "
           "or run culprit on the host";
  }
  if (folder_.link("ns/user") != own_.link("ns/user"))
    return "it is in a user namespace over which this root has no power: run culprit on the host, as the host's root";
  return "a security module (SELinux, AppArmor) forbids it; the system's log tells which rule";
}

void TracedProcess::explain_refusal(int error) const {
  if (error == ESRCH) throw AttachError(name() + " has ended");
  const std::string why = "the system does not let culprit trace " + name() + " (" + std::strerror(error) + "): ";
  if (ptrace_scope(proc_) == "3") {
    throw AttachError(why +
                      "/proc/sys/kernel/yama/ptrace_scope is 3, which forbids tracing until the next boot; start the "
                      "program with culprit run");
  }
  const bool may = (capabilities(own_, "CapEff") >> kCapabilityToTrace & 1) != 0;
  throw AttachError(why + (may ? why_not_even_root() : why_not_root()));
}

std::vector<MappedRange> TracedProcess::mappings() const {
  std::vector<MappedRange> result;
  folder_.for_each_mapping([&](const MappedRange& range) { result.push_back(range); });
  if (result.empty()) {
    if (!is_alive()) throw AttachError(name() + " has ended");
    explain_refusal(EACCES);
  }
  return result;
}

std::vector<pid_t> TracedProcess::threads() const {
  std::vector<pid_t> result;
  for (const std::uint32_t thread : folder_.threads()) {
    const std::optional<ProcessStat> stat = folder_.thread(thread).stat();
    if (!stat || !stat->has_ended()) result.push_back(static_cast<pid_t>(thread));
  }
  return result;
}

std::optional<long> TracedProcess::system_call(pid_t thread) const {
  return folder_.thread(static_cast<std::uint32_t>(thread)).system_call();
}

std::string TracedProcess::path_from_here(const std::string& path) const { return folder_.root() + path; }

bool TracedProcess::same_files() const {
  return same_place(folder_.root(), own_.root()) && same_place(folder_.path() + "/ns/mnt", own_.path() + "/ns/mnt");
}

bool TracedProcess::read_memory(std::uint64_t address, void* data, std::size_t size) const {
  iovec local = {data, size};
  iovec remote = {reinterpret_cast<void*>(address), size};
  return ::process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

bool TracedProcess::write_memory(std::uint64_t address, const void* data, std::size_t size) const {
  iovec local = {const_cast<void*>(data), size};
  iovec remote = {reinterpret_cast<void*>(address), size};
  return ::process_vm_writev(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

std::string mapped_library(const std::vector<MappedRange>& mappings) {
  for (const MappedRange& range : mappings) {
    const std::string name = range.path.substr(range.path.rfind('/') + 1);
    if (name.compare(0, 13, "libculprit.so") == 0) return range.path;
  }
  return {};
}

}  // namespace culprit::report
