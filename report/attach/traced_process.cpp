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

#include "report/proc_text.h"

namespace culprit {
namespace {

std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" \t\n")); }

// Field `number` of /proc/.../stat, from 3 on; the name before it may hold anything.
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

TracedProcess::TracedProcess(pid_t pid) : pid_(pid) {
  const std::string start = stat_field(folder(), 22);
  if (pid <= 0 || start.empty()) {
    throw AttachError(
        "there is no process " + std::to_string(pid) +
        " here. Inside a container its processes have other numbers than outside: ps shows those that count");
  }
  // A thread has a folder as well; its group has the number that people mean.
  const std::string leader = status("Tgid");
  if (!leader.empty() && leader != std::to_string(pid))
    throw AttachError(std::to_string(pid) + " is a thread of process " + leader + ": use that number");
  start_time_ = std::strtoull(start.c_str(), nullptr, 10);
}

std::string TracedProcess::status(const std::string& field) const {
  const std::string text = "\n" + read_proc_text(folder() + "/status");
  const std::size_t at = text.find("\n" + field + ":");
  if (at == std::string::npos) return {};
  const std::size_t begin = text.find_first_not_of(" \t", at + field.size() + 2);
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

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
  if (state == "Z" || state == "X") throw AttachError(name() + " has ended");
  if (state == "T")
    throw AttachError(name() + " is stopped: continue it first (kill -CONT " + std::to_string(pid_) + ")");
  const std::string tracer = status("TracerPid");
  if (!tracer.empty() && tracer != "0") {
    std::string who = read_proc_text("/proc/" + tracer + "/comm");
    while (!who.empty() && who.back() == '\n') who.pop_back();
    throw AttachError(name() + " is traced by " + (who.empty() ? "process " : who + ", process ") + tracer +
                      ": a debugger or strace; let it detach first");
  }
  const std::string uid = first_word(status("Uid"));
  if (::geteuid() != 0 && uid != std::to_string(::geteuid()))
    throw AttachError(name() + " belongs to " + user_name(uid) + ": run culprit as that user, or as root");
  if (!status("x86_Thread_features").empty() && status("x86_Thread_features").find("shstk") != std::string::npos)
    throw AttachError(name() +
                      " runs with shadow stacks, which no call can be injected into: preload libculprit.so instead");

  std::ifstream executable(folder() + "/exe", std::ios::binary);
  unsigned char head[20] = {};
  executable.read(reinterpret_cast<char*>(head), sizeof(head));
  if (executable && (std::memcmp(head, ELFMAG, SELFMAG) != 0 || head[EI_CLASS] != ELFCLASS64))
    throw AttachError(name() + " is no 64-bit program");
}

void TracedProcess::explain_refusal(int error) const {
  if (error == ESRCH) throw AttachError(name() + " has ended");
  std::string why = "the system does not let culprit trace " + name() + " (" + std::strerror(error) + ")";
  const std::string scope = first_word(read_proc_text("/proc/sys/kernel/yama/ptrace_scope"));
  if (scope == "3") {
    why += ": /proc/sys/kernel/yama/ptrace_scope is 3, which forbids it to everybody until the next boot";
  } else if (::geteuid() != 0 && (scope == "1" || scope == "2")) {
    why += ": /proc/sys/kernel/yama/ptrace_scope is " + scope + ", so run culprit as root (sudo culprit attach " +
           std::to_string(pid_) + "), or start the program with culprit run";
  } else if (::geteuid() != 0) {
    why += ": run culprit as root";
  } else {
    why +=
        ": in a container it needs the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE); or run culprit on the "
        "host";
  }
  throw AttachError(why);
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
  return same_place(folder() + "/root", "/proc/self/root") && same_place(folder() + "/ns/mnt", "/proc/self/ns/mnt");
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

}  // namespace culprit
