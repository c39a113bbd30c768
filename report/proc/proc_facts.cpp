#include "report/proc/proc_facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>

#include "interpose/format/dump_file.h"
#include "report/proc/proc_text.h"

namespace culprit::report {
namespace {

// The inode of the first PID namespace: PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h.
constexpr char kFirstPidNamespace[] = "pid:[4026531836]";
// PF_KTHREAD of the kernel's include/linux/sched.h.
constexpr unsigned long kKernelThread = 0x00200000;
constexpr std::string_view kDeviceFiles = "/dev/nvidia";

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string link_target(const std::string& path) {
  char buffer[4096];
  const ssize_t size = ::readlink(path.c_str(), buffer, sizeof(buffer));
  return size < 0 ? std::string() : std::string(buffer, static_cast<std::size_t>(size));
}

// Calls visit(name) for each entry whose name does not begin with a dot. Returns 0, or the errno.
int for_each_entry(const std::string& folder, const std::function<void(const char*)>& visit) {
  DIR* dir = ::opendir(folder.c_str());
  if (dir == nullptr) return errno;
  errno = 0;
  while (const dirent* entry = ::readdir(dir)) {
    if (entry->d_name[0] != '.') visit(entry->d_name);
    errno = 0;
  }
  const int error = errno;
  ::closedir(dir);
  return error;
}

// False when the process is gone, or is a kernel thread.
bool read_stat(const std::string& folder, ProcessFacts* process) {
  const std::string text = read_proc_text(folder + "/stat");
  // The second field is the name in parentheses, which may contain spaces and parentheses.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return false;
  process->name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  std::vector<std::string> fields;  // from the third field on
  for (std::string field; rest >> field && fields.size() < 20;) fields.push_back(field);
  if (fields.size() < 20) return false;
  const auto value = [&fields](int field) {
    return std::strtoull(fields[static_cast<std::size_t>(field - 3)].c_str(), nullptr, 10);
  };
  process->state = fields[0][0];
  process->parent = static_cast<std::uint32_t>(value(4));
  process->group = static_cast<std::uint32_t>(value(5));
  process->session = static_cast<std::uint32_t>(value(6));
  process->start_ticks = value(22);
  return (value(9) & kKernelThread) == 0;
}

void note_path(std::string_view path, ProcessFacts* process) {
  if (path.substr(0, kDeviceFiles.size()) != kDeviceFiles) return;
  path.remove_prefix(kDeviceFiles.size());
  path = path.substr(0, path.find(' '));  // " (deleted)"
  const std::optional<std::uint32_t> gpu = number(path);
  if (gpu) {
    process->gpus.insert(*gpu);
  } else {
    process->other_gpu_files = true;
  }
}

void note_unreadable(int error, ProcessFacts* process) {
  // A process that has just ended does not count as unreadable.
  if (error != 0 && error != ENOENT && error != ESRCH && process->unreadable.empty())
    process->unreadable = std::strerror(error);
}

void read_descriptors(const std::string& folder, ProcessFacts* process) {
  int link_error = 0;
  const int error = for_each_entry(folder + "/fd", [&](const char* name) {
    char target[256];
    const ssize_t size = ::readlink((folder + "/fd/" + name).c_str(), target, sizeof(target));
    if (size < 0) {
      link_error = errno;
    } else {
      note_path(std::string_view(target, static_cast<std::size_t>(size)), process);
    }
  });
  note_unreadable(error, process);
  note_unreadable(link_error, process);
}

// Calls visit(path, writable_and_shared) for each mapped file.
void for_each_mapping(const std::string& folder, ProcessFacts* process,
                      const std::function<void(const std::string&, bool)>& visit) {
  errno = 0;
  std::ifstream maps(folder + "/maps");
  if (!maps) {
    note_unreadable(errno, process);
    return;
  }
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    const std::size_t rights = line.find(' ');
    if (path == std::string::npos || rights == std::string::npos || rights + 5 > path) continue;
    visit(line.substr(path), line[rights + 2] == 'w' && line[rights + 4] == 's');
  }
}

bool is_dump(const std::string& root, std::uint32_t pid, const std::string& path) {
  const int fd = open_in_process(root, pid, path);
  if (fd < 0) return false;
  char magic[sizeof(format::kMagic)] = {};
  const bool same = ::read(fd, magic, sizeof(magic)) == static_cast<ssize_t>(sizeof(magic)) &&
                    std::memcmp(magic, format::kMagic, sizeof(magic)) == 0;
  ::close(fd);
  return same;
}

// The dump that the process has mapped; empty if none.
std::string find_dump(const std::string& root, ProcessFacts* process) {
  std::string dump;
  std::set<std::string> tried;
  for_each_mapping(root + "/" + std::to_string(process->pid), process, [&](const std::string& path, bool shared) {
    if (!shared || !dump.empty() || path.compare(0, 5, "/dev/") == 0 || !tried.insert(path).second) return;
    if (is_dump(root, process->pid, path)) dump = path;
  });
  return dump;
}

void read_threads_of_zombie(const std::string& folder, ProcessFacts* process) {
  for_each_entry(folder + "/task", [&](const char* name) {
    const std::optional<std::uint32_t> tid = number(name);
    ProcessFacts thread;
    if (!tid || *tid == process->pid || !read_stat(folder + "/task/" + name, &thread)) return;
    if (thread.state == 'Z' || thread.state == 'X') return;
    process->live_threads.push_back(*tid);
    read_descriptors(folder + "/task/" + name, process);
  });
}

std::string user_of(const std::string& folder) {
  const std::string status = read_proc_text(folder + "/status");
  const std::size_t at = status.find("\nUid:");
  if (at == std::string::npos) return {};
  const auto uid = static_cast<uid_t>(std::strtoul(status.c_str() + at + 5, nullptr, 10));
  const passwd* known = ::getpwuid(uid);
  return known != nullptr ? known->pw_name : std::to_string(uid);
}

std::vector<std::string> command_of(const std::string& folder) {
  std::vector<std::string> words;
  std::istringstream text(read_proc_text(folder + "/cmdline"));
  for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  return words;
}

std::string host_name_of(const std::string& root, std::uint32_t pid) {
  const int fd = open_in_process(root, pid, "/etc/hostname");
  if (fd < 0) return {};
  char buffer[256];
  const ssize_t size = ::read(fd, buffer, sizeof(buffer));
  ::close(fd);
  const std::string text(buffer, size < 0 ? 0 : static_cast<std::size_t>(size));
  return text.substr(0, text.find('\n'));
}

void read_details(const ProcFacts& facts, double uptime, ProcessFacts* process) {
  const std::string folder = facts.root + "/" + std::to_string(process->pid);
  process->command = command_of(folder);
  process->user = user_of(folder);
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double started = static_cast<double>(process->start_ticks) / ticks;
  if (uptime >= started) process->age_seconds = uptime - started;
  const ProcessFacts* parent = facts.find(process->parent);
  if (parent != nullptr) process->parent_name = parent->name;
  if (process->state == 'D') process->wait_channel = read_proc_text(folder + "/wchan");
  process->container = container_of(read_proc_text(folder + "/cgroup"));
  if (process->container.found()) process->container.name = host_name_of(facts.root, process->pid);
  process->dump = find_dump(facts.root, process);
}

}  // namespace

std::string dump_of_process(const std::string& root, std::uint32_t pid) {
  ProcessFacts process;
  process.pid = pid;
  return find_dump(root, &process);
}

int open_in_process(const std::string& root, std::uint32_t pid, const std::string& path) {
  const int top = ::open((root + "/" + std::to_string(pid) + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (top < 0) return -1;
  // Links of a container must not lead out of it, and opening a pipe must not block.
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const int fd = static_cast<int>(::syscall(SYS_openat2, top, path.c_str(), &how, sizeof(how)));
  const int error = errno;
  ::close(top);
  struct stat info = {};
  if (fd >= 0 && (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
    ::close(fd);
    errno = EINVAL;
    return -1;
  }
  errno = error;
  return fd;
}

ProcFacts read_proc(const std::string& root, const std::set<std::uint32_t>& named) {
  ProcFacts facts;
  facts.root = root;
  facts.privileged = ::geteuid() == 0;
  facts.host_view = link_target(root + "/self/ns/pid") == kFirstPidNamespace;
  const std::optional<std::uint32_t> self = number(link_target(root + "/self"));
  const int error = for_each_entry(root, [&](const char* name) {
    const std::optional<std::uint32_t> pid = number(name);
    if (!pid || (self && *pid == *self)) return;
    ProcessFacts process;
    process.pid = *pid;
    const std::string folder = root + "/" + name;
    if (!read_stat(folder, &process)) return;
    if (process.state == 'Z') {
      read_threads_of_zombie(folder, &process);
    } else {
      read_descriptors(folder, &process);
      for_each_mapping(folder, &process, [&](const std::string& path, bool) {
        note_path(path, &process);
        process.maps_driver = process.maps_driver || path.find("/libcuda.so") != std::string::npos;
      });
    }
    if (!process.unreadable.empty() && facts.unreadable++ == 0) facts.unreadable_reason = process.unreadable;
    facts.processes.emplace(*pid, std::move(process));
  });
  if (error != 0) facts.problem = root + ": " + std::strerror(error);
  // Process 1 is visible to all users, unless /proc hides the processes of others.
  facts.hides_others = error == 0 && facts.find(1) == nullptr && !(self && *self == 1);
  const double uptime = std::strtod(read_proc_text(root + "/uptime").c_str(), nullptr);
  for (auto& [pid, process] : facts.processes) {
    if (process.holds_files() || named.count(pid) != 0) read_details(facts, uptime, &process);
  }
  return facts;
}

}  // namespace culprit::report
