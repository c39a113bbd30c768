// The files of one process, or of one thread, in /proc. They may vanish at any moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace culprit::report {

struct ProcessStat {
  std::string name;  // 15 bytes at most
  char state = '?';  // R, S, D, Z, ...
  std::uint32_t parent = 0;
  std::uint32_t group = 0;
  std::uint32_t session = 0;
  std::uint64_t start_ticks = 0;
  bool kernel_thread = false;       // also one that the kernel has made for the process (io_uring)
  bool ending = false;              // it will be seen as ended soon
  bool has_no_environment = false;  // it was started without any variable
  int wait_status = 0;              // of a zombie, as waitpid() will tell it; also 0 where this process may not know it

  bool has_ended() const { return state == 'Z' || state == 'X'; }
};

// The system call that a thread sleeps in.
struct ThreadCall {
  bool running = false;  // ... or it runs, in the program or in the kernel
  long number = -1;
  std::uint64_t arguments[6] = {};
  std::uint64_t stack_pointer = 0;
  std::uint64_t instruction_pointer = 0;

  bool operator==(const ThreadCall& other) const {
    return running == other.running && number == other.number &&
           std::equal(std::begin(arguments), std::end(arguments), std::begin(other.arguments)) &&
           stack_pointer == other.stack_pointer && instruction_pointer == other.instruction_pointer;
  }
};

struct MappedRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  std::uint64_t device = 0;  // as stat() tells it; 0: anonymous
  std::uint64_t inode = 0;
  std::string path;  // as the process sees it; empty: anonymous

  bool contains(std::uint64_t address) const { return address >= begin && address < end; }
  // The name of the file, without its folders. Valid as long as `path`.
  std::string_view file_name() const { return std::string_view(path).substr(path.rfind('/') + 1); }
  bool file_begins_with(std::string_view name) const { return file_name().substr(0, name.size()) == name; }
};

// All functions are thread-safe and never throw. Where a file cannot be read they return nothing.
class ProcessFolder {
 public:
  // `proc`: the path of /proc. `process`: a pid, or "self".
  ProcessFolder(const std::string& proc, const std::string& process) : path_(proc + "/" + process) {}
  ProcessFolder(const std::string& proc, std::uint64_t pid) : ProcessFolder(proc, std::to_string(pid)) {}
  ProcessFolder thread(std::uint32_t tid) const { return {path_ + "/task", tid}; }

  const std::string& path() const { return path_; }
  // The process's root: a prefix by which this process can open the files that the other one sees.
  std::string root() const { return path_ + "/root"; }
  // A path of the file that is mapped there, also if it was removed.
  std::string mapped_file(const MappedRange& range) const;

  std::string text(const std::string& file) const;
  // The target of a link.
  std::string link(const std::string& file) const;
  // The user who owns the files: root, where the process has made itself undumpable. The folder itself always belongs
  // to the process's user.
  std::optional<std::uint32_t> owner() const;
  std::string name() const;
  std::optional<ProcessStat> stat() const;
  // A field of the file `status`.
  std::string status(const std::string& field) const;
  // The call that a thread sleeps in; its number is -1 when there is none.
  ThreadCall current_call() const;
  // The first bytes of the program's file; fewer than `size` where it is shorter.
  std::string program_head(std::size_t size) const;
  // Of a thread: the processes that it started. Needs CONFIG_PROC_CHILDREN.
  std::vector<std::uint32_t> children() const;
  // The threads, also those that have ended, in the order of their numbers.
  std::vector<std::uint32_t> threads() const;
  // The folder with the process's memory, files and names. It is the one of another thread when main() has ended by
  // pthread_exit(): the first thread is a zombie then, which has none of them. This folder, when no thread lives.
  ProcessFolder living() const;
  // Whether this process may trace it, as far as the users tell.
  bool may_be_traced() const;
  // Whether the process has ended, or is gone. A process whose first thread alone has ended runs.
  bool has_ended() const;

  // Calls `visit` with the target of each open descriptor. Returns 0, or the errno of the last one that cannot be read.
  int for_each_descriptor(const std::function<void(std::string_view)>& visit) const;
  // Calls `visit` for each mapping. Returns 0, or the errno.
  int for_each_mapping(const std::function<void(const MappedRange&)>& visit) const;

 private:
  std::string path_;
};

// The number of a process, or of a thread, in its innermost PID namespace: the one that it knows. 0: not known.
std::uint32_t innermost_number(const ProcessFolder& process);

// Calls visit(name) for each entry whose name does not begin with a dot. Returns 0, or the errno.
int for_each_entry(const std::string& folder, const std::function<void(const char*)>& visit);

// The decimal number that is all of the text.
std::optional<std::uint32_t> whole_number(std::string_view text);

// This boot of the machine.
std::string boot_id(const std::string& proc);
// The setting of the security module Yama: "0" to "3"; empty: there is none.
std::string ptrace_scope(const std::string& proc);
// The number of this process there, which may be another PID namespace's; empty: not known.
std::optional<std::uint32_t> own_pid(const std::string& proc);
// The inode of this process's PID namespace; 0: not known.
std::uint64_t own_pid_namespace(const std::string& proc);
// The path of this program. Throws std::filesystem::filesystem_error when /proc is not there.
std::string own_program();

}  // namespace culprit::report
