#include "report/proc/process_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "report/base/descriptor.h"
#include "report/proc/proc_text.h"

namespace culprit::report {
namespace {

// PF_KTHREAD, PF_IO_WORKER, PF_USER_WORKER and PF_EXITING of the kernel's include/linux/sched.h.
constexpr std::uint64_t kKernelThread = 0x00200000 | 0x00000010 | 0x00004000;
constexpr std::uint64_t kEnding = 0x00000004;

std::string without_line_end(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string link_target(const std::string& path) {
  char target[4096];
  const ssize_t size = ::readlink(path.c_str(), target, sizeof(target));
  return size < 0 ? std::string() : std::string(target, static_cast<std::size_t>(size));
}

bool parse_mapping(const std::string& line, MappedRange* range) {
  char rights[5] = {};
  unsigned major_number = 0;
  unsigned minor_number = 0;
  int path_at = 0;
  if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &range->begin,
                  &range->end, rights, &range->offset, &major_number, &minor_number, &range->inode, &path_at) < 7)
    return false;
  range->readable = rights[0] == 'r';
  range->writable = rights[1] == 'w';
  range->executable = rights[2] == 'x';
  range->shared = rights[3] == 's';
  range->device = makedev(major_number, minor_number);
  if (path_at > 0) range->path = line.substr(static_cast<std::size_t>(path_at));
  return true;
}

}  // namespace

std::string ProcessFolder::mapped_file(const MappedRange& range) const {
  char name[64];
  std::snprintf(name, sizeof(name), "/map_files/%" PRIx64 "-%" PRIx64, range.begin, range.end);
  return path_ + name;
}

std::string ProcessFolder::text(const std::string& file) const { return read_proc_text(path_ + "/" + file); }

std::string ProcessFolder::link(const std::string& file) const { return link_target(path_ + "/" + file); }

std::optional<std::uint32_t> ProcessFolder::owner() const {
  struct stat info = {};
  if (::stat((path_ + "/stat").c_str(), &info) != 0) return std::nullopt;
  return info.st_uid;
}

std::string ProcessFolder::name() const { return without_line_end(text("comm")); }

std::optional<ProcessStat> ProcessFolder::stat() const {
  const std::string all = text("stat");
  // The second field is the name in parentheses, which may contain spaces and parentheses.
  const std::size_t open = all.find('(');
  const std::size_t close = all.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  // Without a stream: `culprit run` reads this of all processes.
  std::array<const char*, 50> fields = {};  // from the third field on
  std::size_t count = 0;
  for (const char* at = all.c_str() + close + 1; count < fields.size() && *(at += std::strspn(at, " \n")) != '\0';) {
    fields[count++] = at;
    at += std::strcspn(at, " \n");
  }
  if (count < 20) return std::nullopt;
  const auto value = [&fields](int field) {
    return std::strtoull(fields[static_cast<std::size_t>(field - 3)], nullptr, 10);
  };
  ProcessStat stat;
  stat.name = all.substr(open + 1, close - open - 1);
  stat.state = *fields[0];
  stat.parent = static_cast<std::uint32_t>(value(4));
  stat.group = static_cast<std::uint32_t>(value(5));
  stat.session = static_cast<std::uint32_t>(value(6));
  stat.kernel_thread = (value(9) & kKernelThread) != 0;
  stat.ending = (value(9) & kEnding) != 0;
  stat.start_ticks = value(22);
  if (count < fields.size()) return stat;
  stat.has_no_environment = value(50) != 0 && value(50) == value(51);
  stat.wait_status = static_cast<int>(value(52));
  return stat;
}

std::string ProcessFolder::status(const std::string& field) const {
  const std::string all = "\n" + text("status");
  const std::size_t at = all.find("\n" + field + ":");
  if (at == std::string::npos) return {};
  const std::size_t begin = all.find_first_not_of(" \t", at + field.size() + 2);
  return begin == std::string::npos ? "" : all.substr(begin, all.find('\n', begin) - begin);
}

ThreadCall ProcessFolder::current_call() const {
  ThreadCall call;
  std::istringstream all(text("syscall"));
  std::string word;
  all >> word;
  call.running = word == "running";
  if (word.empty() || call.running) return call;
  call.number = std::strtol(word.c_str(), nullptr, 10);
  const auto next = [&] { return all >> word ? std::strtoull(word.c_str(), nullptr, 16) : 0; };
  if (call.number >= 0) std::generate(std::begin(call.arguments), std::end(call.arguments), next);
  call.stack_pointer = next();
  call.instruction_pointer = next();
  return call;
}

std::string ProcessFolder::program_head(std::size_t size) const {
  std::string head(size, '\0');
  const Descriptor file(::open((path_ + "/exe").c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t count = file.is_open() ? ::read(file.get(), head.data(), size) : 0;
  head.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return head;
}

std::vector<std::uint32_t> ProcessFolder::children() const {
  std::istringstream numbers(text("children"));
  return {std::istream_iterator<std::uint32_t>(numbers), {}};
}

std::vector<std::uint32_t> ProcessFolder::threads() const {
  std::vector<std::uint32_t> threads;
  for_each_entry(path_ + "/task", [&](const char* name) {
    const std::optional<std::uint32_t> tid = whole_number(name);
    if (tid) threads.push_back(*tid);
  });
  std::sort(threads.begin(), threads.end());
  return threads;
}

ProcessFolder ProcessFolder::living() const {
  const std::optional<ProcessStat> first = stat();
  if (!first || !first->has_ended()) return *this;
  for (const std::uint32_t tid : threads()) {
    const std::optional<ProcessStat> other = thread(tid).stat();
    if (other && !other->has_ended()) return thread(tid);
  }
  return *this;
}

bool ProcessFolder::may_be_traced() const {
  if (::geteuid() == 0) return true;
  // The real, effective, saved and file system user and group.
  const auto all_are = [](const std::string& numbers, std::uint64_t wanted) {
    std::istringstream rest(numbers);
    bool any = false;
    for (std::uint64_t number = 0; rest >> number; any = true) {
      if (number != wanted) return false;
    }
    return any;
  };
  return all_are(status("Uid"), ::geteuid()) && all_are(status("Gid"), ::getegid());
}

bool ProcessFolder::has_ended() const {
  const std::optional<ProcessStat> alive = living().stat();
  return !alive || alive->has_ended();
}

int ProcessFolder::for_each_descriptor(const std::function<void(std::string_view)>& visit) const {
  int link_error = 0;
  const int error = for_each_entry(path_ + "/fd", [&](const char* name) {
    char target[256];
    const ssize_t size = ::readlink((path_ + "/fd/" + name).c_str(), target, sizeof(target));
    if (size < 0) {
      link_error = errno;
    } else {
      visit(std::string_view(target, static_cast<std::size_t>(size)));
    }
  });
  return error != 0 ? error : link_error;
}

int ProcessFolder::for_each_mapping(const std::function<void(const MappedRange&)>& visit) const {
  int error = 0;
  const std::string maps = read_proc_text(path_ + "/maps", &error);
  for (std::size_t begin = 0; begin < maps.size();) {
    const std::size_t end = std::min(maps.find('\n', begin), maps.size());
    MappedRange range;
    if (parse_mapping(maps.substr(begin, end - begin), &range)) visit(range);
    begin = end + 1;
  }
  return error;
}

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

std::optional<std::uint32_t> whole_number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string boot_id(const std::string& proc) {
  return without_line_end(read_proc_text(proc + "/sys/kernel/random/boot_id"));
}

std::string ptrace_scope(const std::string& proc) {
  const std::string text = read_proc_text(proc + "/sys/kernel/yama/ptrace_scope");
  return text.substr(0, text.find_first_of(" \t\n"));
}

std::optional<std::uint32_t> own_pid(const std::string& proc) { return whole_number(link_target(proc + "/self")); }

std::uint64_t own_pid_namespace(const std::string& proc) {
  struct stat info = {};
  return ::stat((proc + "/self/ns/pid").c_str(), &info) == 0 ? info.st_ino : 0;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::uint32_t innermost_number(const ProcessFolder& process) {
  const std::string numbers = process.status("NSpid");
  return whole_number(std::string_view(numbers).substr(numbers.find_last_of(" \t") + 1)).value_or(0);
}

}  // namespace culprit::report
