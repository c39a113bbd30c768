#include "report/attach/traced_process.h"

#include <dirent.h>
#include <elf.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "report/proc/proc_text.h"

namespace culprit::report {
namespace {

// PF_KTHREAD of the kernel's include/linux/sched.h, CAP_SYS_PTRACE of its include/uapi/linux/capability.h.
constexpr unsigned long kKernelThread = 0x00200000;
constexpr int kCapabilityToTrace = 19;

std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" \t\n")); }

// Field `number` of /proc/.../stat, from 3 on; the name before it may contain any character.
std::string stat_field(const std::string& folder, int number) {
  const std::string text = read_proc_text(folder + "/stat");
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos) return {};
  std::istringstream rest(text.substr(close + 1));
  std::string field;
  for (int i = 3; i <= number; ++i) {
    if (!(rest >> field)) return {};
  }
  return field;
}

// A field of /proc/.../status; empty when there is none.
std::string status_field(const std::string& folder, const std::string& field) {
  const std::string text = "\n" + read_proc_text(folder + "/status");
  const std::size_t at = text.find("\n" + field + ":");
  if (at == std::string::npos) return {};
  const std::size_t begin = text.find_first_not_of(" \t", at + field.size() + 2);
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

std::uint64_t capabilities(const std::string& folder, const std::string& field) {
  return std::strtoull(status_field(folder, field).c_str(), nullptr, 16);
}

std::string linked_to(const std::string& path) {
  char text[256];
  const ssize_t length = ::readlink(path.c_str(), text, sizeof(text));
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : std::string();
}

std::string effective_user(const std::string& folder) {
  std::istringstream ids(status_field(folder, "Uid"));
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

TracedProcess::TracedProcess(pid_t pid, std::string proc) : pid_(pid), proc_(std::move(proc)) {
  const std::string start = stat_field(folder(), 22);
  if (pid <= 0 || start.empty()) {
    throw AttachError(
        "there is no process " + std::to_string(pid) +
        " here. Inside a container its processes have other numbers than outside: ps shows those that count");
  }
  // Threads have folders, too; the target is the thread group, whose id users know as the pid.
  const std::string leader = status("Tgid");
  if (!leader.empty() && leader != std::to_string(pid))
    throw AttachError(std::to_string(pid) + " is a thread of process " + leader + ": use that number");
  start_time_ = std::strtoull(start.c_str(), nullptr, 10);
}

std::string TracedProcess::status(const std::string& field) const { return status_field(folder(), field); }

std::string TracedProcess::name() const {
  std::string name = read_proc_text(folder() + "/comm");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name + " [" + std::to_string(pid_) + "]";
}

bool TracedProcess::is_alive() const {
  const std::string state = stat_field(folder(), 3);
  return !state.empty() && state != "Z" && state != "X" &&
         std::strtoull(stat_field(folder(), 22).c_str(), nullptr, 10) == start_time_;
}

void TracedProcess::check_attachable() const {
  if (pid_ == ::getpid()) throw AttachError("that is culprit itself");
  const std::string state = stat_field(folder(), 3);
  if (state == "Z" || state == "X") {
    throw AttachError(name() + " has ended: only its parent, process " + stat_field(folder(), 4) +
                      ", has not taken note of it yet");
  }
  if ((std::strtoul(stat_field(folder(), 9).c_str(), nullptr, 10) & kKernelThread) != 0)
    throw AttachError(name() + " is a thread of the kernel: nothing can be loaded into it");
  if (state == "T")
    throw AttachError(name() + " is stopped: continue it first (kill -CONT " + std::to_string(pid_) + ")");
  const std::string tracer = status("TracerPid");
  if (!tracer.empty() && tracer != "0") {
    std::string who = read_proc_text(proc_ + "/" + tracer + "/comm");
    while (!who.empty() && who.back() == '\n') who.pop_back();
    throw AttachError(name() + " is traced by " + (who.empty() ? "process " : who + ", process ") + tracer +
                      ": a debugger or strace; let it detach first");
  }
  const std::string uid = first_word(status("Uid"));
  const std::string own = effective_user(proc_ + "/self");
  if (own != "0" && uid != own)
    throw AttachError(name() + " belongs to " + user_name(uid) + ": run culprit as that user, or as root");
  if (!status("x86_Thread_features").empty() && status("x86_Thread_features").find("shstk") != std::string::npos)
    throw AttachError(name() +
                      " runs with shadow stacks, which no call can be injected into: preload libculprit.so instead");

  std::ifstream executable(folder() + "/exe", std::ios::binary);
  unsigned char head[20] = {};
  executable.read(reinterpret_cast<char*>(head), sizeof(head));
  if (executable && (std::memcmp(head, ELFMAG, SELFMAG) != 0 || head[EI_CLASS] != ELFCLASS64))
    throw AttachError(name() + " is no 64-bit program, and libculprit.so is for such only");
}

// Why tracing is refused to a user without root, or to root without the capability.
std::string TracedProcess::why_not_root() const {
  const std::string scope = first_word(read_proc_text(proc_ + "/sys/kernel/yama/ptrace_scope"));
  const std::string as_root = "run culprit as root (sudo culprit attach " + std::to_string(pid_) + ")";
  struct stat owner = {};
  if (effective_user(proc_ + "/self") == "0") {
    return "in a container it needs the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE); or run culprit on the "
           "host";
  }
  // stat() of the file shows who owns the process's /proc files; the folder always belongs to the process's user.
  if (::stat((folder() + "/stat").c_str(), &owner) == 0 && std::to_string(owner.st_uid) != first_word(status("Uid"))) {
    return "it has made itself undumpable, as programs do that hold secrets or change their user, or its file may not "
           "be read: " +
           as_root;
  }
  if (scope == "1" || scope == "2") {
    return "/proc/sys/kernel/yama/ptrace_scope is " + scope + ", so " + as_root +
           ", or start the program with culprit run";
  }
  if ((capabilities(folder(), "CapPrm") & ~capabilities(proc_ + "/self", "CapPrm")) != 0)
    return "it has capabilities that culprit has not: " + as_root;
  return as_root;
}

// Why tracing is refused even with the capability SYS_PTRACE.
std::string TracedProcess::why_not_even_root() const {
  if (status_field(proc_ + "/self", "Seccomp") == "2") {
    return "a seccomp filter around culprit forbids it (docker run --security-opt seccomp=unconfined lifts Docker's); "
           "or run culprit on the host";
  }
  const std::string space = linked_to(folder() + "/ns/user");
  if (space != linked_to(proc_ + "/self/ns/user"))
    return "it is in a user namespace over which this root has no power: run culprit on the host, as the host's root";
  return "a security module (SELinux, AppArmor) forbids it; the system's log tells which rule";
}

void TracedProcess::explain_refusal(int error) const {
  if (error == ESRCH) throw AttachError(name() + " has ended");
  const std::string why = "the system does not let culprit trace " + name() + " (" + std::strerror(error) + "): ";
  if (first_word(read_proc_text(proc_ + "/sys/kernel/yama/ptrace_scope")) == "3") {
    throw AttachError(
        why +
        "/proc/sys/kernel/yama/ptrace_scope is 3, which forbids it to everybody until the next boot; start the "
        "program with culprit run");
  }
  const bool may = (capabilities(proc_ + "/self", "CapEff") >> kCapabilityToTrace & 1) != 0;
  throw AttachError(why + (may ? why_not_even_root() : why_not_root()));
}

std::vector<MappedRange> TracedProcess::mappings() const {
  std::ifstream maps(folder() + "/maps");
  std::vector<MappedRange> result;
  for (std::string line; std::getline(maps, line);) {
    MappedRange range;
    char rights[5] = {};
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &range.begin, &range.end,
                    rights, &range.offset, &path_at) < 4)
      continue;
    range.readable = rights[0] == 'r';
    range.writable = rights[1] == 'w';
    range.executable = rights[2] == 'x';
    range.shared = rights[3] == 's';
    if (path_at > 0) range.path = line.substr(static_cast<std::size_t>(path_at));
    result.push_back(range);
  }
  if (result.empty()) {
    if (!is_alive()) throw AttachError(name() + " has ended");
    explain_refusal(EACCES);
  }
  return result;
}

std::vector<pid_t> TracedProcess::threads() const {
  std::vector<pid_t> result;
  DIR* tasks = ::opendir((folder() + "/task").c_str());
  if (tasks == nullptr) return result;
  while (const dirent* entry = ::readdir(tasks)) {
    const pid_t thread = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (thread <= 0) continue;
    const std::string state = stat_field(folder() + "/task/" + entry->d_name, 3);
    if (state != "Z" && state != "X") result.push_back(thread);
  }
  ::closedir(tasks);
  std::sort(result.begin(), result.end());
  return result;
}

std::optional<long> TracedProcess::system_call(pid_t thread) const {
  long number = -1;
  std::istringstream text(read_proc_text(folder() + "/task/" + std::to_string(thread) + "/syscall"));
  if (!(text >> number) || number < 0) return {};
  return number;
}

std::string TracedProcess::path_from_here(const std::string& path) const { return folder() + "/root" + path; }

bool TracedProcess::same_files() const {
  return same_place(folder() + "/root", proc_ + "/self/root") &&
         same_place(folder() + "/ns/mnt", proc_ + "/self/ns/mnt");
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
