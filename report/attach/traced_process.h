// The process to attach to, as /proc shows it: what is mapped in it, its threads, and why it may not be attached to.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace culprit {

// What stands in the way, and what to do about it, for the user.
class AttachError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct MappedRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  std::string path;  // as the process sees it; empty: anonymous
};

class TracedProcess {
 public:
  // Throws AttachError when there is no such process, or it ended. `proc`: where /proc is.
  explicit TracedProcess(pid_t pid, std::string proc = "/proc");

  pid_t pid() const { return pid_; }

  // Throws AttachError that says why, when nothing can be injected: another user's, traced, stopped, a zombie, a kernel
  // thread, of another word size, without glibc, without the right to trace.
  void check_attachable() const;

  // Why ptrace refused, as far as the system tells.
  [[noreturn]] void explain_refusal(int error) const;

  // The mappings as they are now. Throws AttachError.
  std::vector<MappedRange> mappings() const;

  // Threads, the main one first; those that have ended already are left out.
  std::vector<pid_t> threads() const;

  // The system call that a thread waits in; empty when it is in none, or that is not known.
  std::optional<long> system_call(pid_t thread) const;

  // Where the file that the process knows as `path` can be opened from here: through its own root.
  std::string path_from_here(const std::string& path) const;

  // Whether the process has the same root and the same mounts as this one.
  bool same_files() const;

  // Copies its memory. False with errno when not all of it can be.
  bool read_memory(std::uint64_t address, void* data, std::size_t size) const;
  bool write_memory(std::uint64_t address, const void* data, std::size_t size) const;

  // A field of /proc/PID/status; empty when there is none.
  std::string status(const std::string& field) const;

  // "train.py [4242]" for messages.
  std::string name() const;

  bool is_alive() const;

 private:
  std::string folder() const { return proc_ + "/" + std::to_string(pid_); }
  std::string why_not_root() const;
  std::string why_not_even_root() const;

  pid_t pid_;
  std::string proc_;
  std::uint64_t start_time_ = 0;
};

// The mapping that libculprit.so has in the process, empty when it is not there.
std::string mapped_library(const std::vector<MappedRange>& mappings);

}  // namespace culprit
