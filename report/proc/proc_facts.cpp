#include "report/proc/proc_facts.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <sstream>

#include "interpose/format/dump_file.h"
#include "report/cuda/library_names.h"
#include "report/proc/loaded_library.h"
#include "report/proc/proc_text.h"
#include "report/proc/process_folder.h"

namespace culprit::report {
namespace {

// The inode of the first PID namespace: PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h.
constexpr char kFirstPidNamespace[] = "pid:[4026531836]";
// nvidia-cuda-mps-control and nvidia-cuda-mps-server, as the kernel cuts their names.
constexpr char kMpsDaemon[] = "nvidia-cuda-mps";
constexpr std::string_view kDeviceFiles = "/dev/nvidia";

// False when the process is gone, or is a kernel thread.
bool read_stat(const ProcessFolder& folder, ProcessFacts* process) {
  const std::optional<ProcessStat> stat = folder.stat();
  if (!stat) return false;
  process->name = stat->name;
  process->state = stat->state;
  process->parent = stat->parent;
  process->group = stat->group;
  process->session = stat->session;
  process->start_ticks = stat->start_ticks;
  return !stat->kernel_thread;
}

void note_path(std::string_view path, ProcessFacts* process) {
  if (path.substr(0, kDeviceFiles.size()) != kDeviceFiles) return;
  path.remove_prefix(kDeviceFiles.size());
  path = path.substr(0, path.find(' '));  // " (deleted)"
  const std::optional<std::uint32_t> gpu = whole_number(path);
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

void read_descriptors(const ProcessFolder& folder, ProcessFacts* process) {
  note_unreadable(folder.for_each_descriptor([&](std::string_view target) { note_path(target, process); }), process);
}

// Calls visit for each mapped file.
void for_each_mapped_file(const ProcessFolder& folder, ProcessFacts* process,
                          const std::function<void(const MappedRange&)>& visit) {
  const int error = folder.for_each_mapping([&](const MappedRange& range) {
    if (!range.path.empty() && range.path[0] == '/') visit(range);
  });
  note_unreadable(error, process);
}

std::uint32_t own_number(const std::string& root, std::uint32_t pid) {
  const std::uint32_t number = innermost_number(ProcessFolder(root, pid));
  return number != 0 ? number : pid;
}

// Whether the file is a dump, and not one of a fork parent, whose mapping a child inherits.
bool is_own_dump(const std::string& root, std::uint32_t pid, const std::string& path) {
  const int fd = open_in_process(root, pid, path);
  if (fd < 0) return false;
  format::Header header = {};
  const ssize_t got = ::read(fd, &header, sizeof(header));
  ::close(fd);
  if (got < static_cast<ssize_t>(sizeof(header.magic)) ||
      std::memcmp(header.magic, format::kMagic, sizeof(format::kMagic)) != 0)
    return false;
  return header.pid == 0 || header.pid == own_number(root, pid);  // 0: the dump has only begun
}

// The dump that the process has mapped; empty if none.
std::string find_dump(const std::string& root, ProcessFacts* process) {
  std::string dump;
  std::set<std::string> tried;
  for_each_mapped_file(ProcessFolder(root, process->pid).living(), process, [&](const MappedRange& range) {
    const std::string& path = range.path;
    if (!range.shared || !range.writable || !dump.empty() || path.compare(0, 5, "/dev/") == 0) return;
    if (tried.insert(path).second && is_own_dump(root, process->pid, path)) dump = path;
  });
  return dump;
}

void read_threads_of_zombie(const ProcessFolder& folder, ProcessFacts* process) {
  for (const std::uint32_t tid : folder.threads()) {
    ProcessFacts thread;
    if (tid == process->pid || !read_stat(folder.thread(tid), &thread)) continue;
    if (thread.state == 'Z' || thread.state == 'X') continue;
    process->live_threads.push_back(tid);
    read_descriptors(folder.thread(tid), process);
  }
}

std::string user_of(const ProcessFolder& folder) {
  const std::string ids = folder.status("Uid");
  if (ids.empty()) return {};
  const auto uid = static_cast<uid_t>(std::strtoul(ids.c_str(), nullptr, 10));
  const passwd* known = ::getpwuid(uid);
  return known != nullptr ? known->pw_name : std::to_string(uid);
}

std::vector<std::string> command_of(const ProcessFolder& folder) {
  std::vector<std::string> words;
  std::istringstream text(folder.text("cmdline"));
  for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  return words;
}

// The value of a variable in the environment that the process was started with.
std::string variable_of(const ProcessFolder& folder, const std::string& name) {
  std::istringstream text(folder.text("environ"));
  for (std::string line; std::getline(text, line, '\0');) {
    if (line.compare(0, name.size() + 1, name + "=") == 0) return line.substr(name.size() + 1);
  }
  return {};
}

// "[<0>] os_acquire_rwlock_read+0x35/0x50 [nvidia]", a line for each function.
std::vector<std::string> kernel_stack_of(const ProcessFolder& thread) {
  std::vector<std::string> stack;
  std::istringstream text(thread.text("stack"));
  for (std::string line; std::getline(text, line);) {
    const std::size_t bracket = line.find("] ");
    if (line.empty() || line.front() != '[' || bracket == std::string::npos) continue;
    stack.push_back(line.substr(bracket + 2));
  }
  return stack;
}

void read_stuck_threads(const ProcessFolder& folder, ProcessFacts* process) {
  const auto add = [process](std::uint32_t tid, const ProcessFolder& thread) {
    StuckThread stuck;
    stuck.tid = tid;
    stuck.wait_channel = thread.text("wchan");
    if (stuck.wait_channel == "0") stuck.wait_channel.clear();
    stuck.kernel_stack = kernel_stack_of(thread);
    process->stuck_threads.push_back(std::move(stuck));
  };
  if (process->state == 'D') add(process->pid, folder);
  for (const std::uint32_t tid : folder.threads()) {
    const std::optional<ProcessStat> stat = tid == process->pid ? std::nullopt : folder.thread(tid).stat();
    if (stat && stat->state == 'D') add(tid, folder.thread(tid));
  }
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
  const ProcessFolder whole(facts.root, process->pid);
  const ProcessFolder folder = whole.living();
  process->own_number = own_number(facts.root, process->pid);
  process->command = command_of(folder);
  process->user = user_of(folder);
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double started = static_cast<double>(process->start_ticks) / ticks;
  if (uptime >= started) process->age_seconds = uptime - started;
  const ProcessFacts* parent = facts.find(process->parent);
  if (parent != nullptr) process->parent_name = parent->name;
  if (process->state == 'D') process->wait_channel = folder.text("wchan");
  read_stuck_threads(whole, process);
  process->mps_pipes = variable_of(folder, "CUDA_MPS_PIPE_DIRECTORY");
  process->container = container_of(folder.text("cgroup"));
  if (process->container.found()) process->container.name = host_name_of(facts.root, process->pid);
  process->dump = find_dump(facts.root, process);
}

}  // namespace

bool StuckThread::in_driver() const {
  return std::any_of(kernel_stack.begin(), kernel_stack.end(),
                     [](const std::string& frame) { return frame.find(" [nvidia") != std::string::npos; });
}

std::string dump_of_process(const std::string& root, std::uint32_t pid) {
  ProcessFacts process;
  process.pid = pid;
  return find_dump(root, &process);
}

int open_in_process(const std::string& root, std::uint32_t pid, const std::string& path) {
  const int top = ::open(ProcessFolder(root, pid).living().root().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (top < 0) return -1;
  // Links of a container must not lead out of it, and opening a pipe must not block.
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  // SYS_openat2 needs glibc 2.32; the number is the kernel header's.
  const int fd = static_cast<int>(::syscall(__NR_openat2, top, path.c_str(), &how, sizeof(how)));
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
  facts.host_view = ProcessFolder(root, "self").link("ns/pid") == kFirstPidNamespace;
  const std::optional<std::uint32_t> self = own_pid(root);
  const int error = for_each_entry(root, [&](const char* name) {
    const std::optional<std::uint32_t> pid = whole_number(name);
    if (!pid || (self && *pid == *self)) return;
    ProcessFacts process;
    process.pid = *pid;
    const ProcessFolder folder(root, *pid);
    if (!read_stat(folder, &process)) return;
    if (process.state == 'Z') {
      read_threads_of_zombie(folder, &process);
    } else {
      read_descriptors(folder, &process);
      for_each_mapped_file(folder, &process, [&](const MappedRange& range) { note_path(range.path, &process); });
      process.maps_driver = find_loaded(mappings_of(folder), {kDriverLibrary}) != nullptr;
    }
    if (!process.unreadable.empty() && facts.unreadable++ == 0) facts.unreadable_reason = process.unreadable;
    facts.processes.emplace(*pid, std::move(process));
  });
  if (error != 0) facts.problem = root + ": " + std::strerror(error);
  // Process 1 is visible to all users, unless /proc hides the processes of others.
  facts.hides_others = error == 0 && facts.find(1) == nullptr && !(self && *self == 1);
  facts.uptime_seconds = std::strtod(read_proc_text(root + "/uptime").c_str(), nullptr);
  for (auto& [pid, process] : facts.processes) {
    if (process.uses_gpu() || named.count(pid) != 0 || process.name == kMpsDaemon)
      read_details(facts, facts.uptime_seconds, &process);
  }
  return facts;
}

}  // namespace culprit::report
