// The process to attach to, according to /proc: its mappings, its threads, and why attaching is not possible.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "report/proc/process_folder.h"

namespace culprit::report {

// The obstacle and its remedy, for the user.
class AttachError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class TracedProcess {
 public:
  // Throws AttachError when there is no such process, or it has ended. `proc`: the path of /proc.
  explicit TracedProcess(pid_t pid, std::string proc = "/proc");

  pid_t pid() const { return pid_; }
  // A thread that lives: the first one may have ended by pthread_exit(), and has no memory then.
  pid_t living_thread() const;
  const ProcessFolder& folder() const { return folder_; }
  // Of this process.
  const ProcessFolder& own() const { return own_; }

  // Throws AttachError with the reason when injection is impossible: another user's process, traced, stopped, a zombie,
  // a kernel thread, of another word size, without glibc, or no permission to trace.
  void check_attachable() const;

  // Throws the reason why ptrace refused, as far as the system tells. The process may be ending, or another tracer may
  // have come first.
  [[noreturn]] void explain_refusal(int error) const;

  // The current mappings. Throws AttachError.
  std::vector<MappedRange> mappings() const;

  // Threads, the main one first, without those that have ended.
  std::vector<pid_t> threads() const;

  // The process that traces the thread, 0 = none.
  pid_t tracer_of(pid_t thread) const;

  ProcessFolder thread(pid_t thread) const { return folder_.thread(static_cast<std::uint32_t>(thread)); }

  // A path by which this process can open the file at `path` in the target: through the target's root.
  std::string path_from_here(const std::string& path) const;

  // A path by which this process can open the mapped file, also if it was removed.
  std::string mapped_file(const MappedRange& range) const { return folder_.mapped_file(range); }

  // Whether the process has the same root and the same mounts as this one.
  bool same_files() const;

  // Reads its memory. False, with errno, unless all of it could be read.
  bool read_memory(std::uint64_t address, void* data, std::size_t size) const;
  bool write_memory(std::uint64_t address, const void* data, std::size_t size) const;
  // Reads `size` bytes at each address into `data`, with few system calls. Returns how many could be read: those before
  // the first one that could not.
  std::size_t read_pieces(const std::vector<std::uint64_t>& addresses, std::size_t size, void* data) const;

  // A value that the kernel gave the program at its start (AT_...); 0: it gave none.
  std::uint64_t auxiliary_value(std::uint64_t type) const;

  // "train.py [4242]" for messages.
  std::string name() const;

  bool is_alive() const;

 private:
  std::string why_not_root() const;
  std::string why_not_even_root() const;

  std::string tracer() const;
  bool read_or_write(bool write, std::uint64_t address, void* data, std::size_t size) const;

  pid_t pid_;
  std::string proc_;
  ProcessFolder folder_;
  ProcessFolder own_;
  std::uint64_t start_time_ = 0;
  std::string first_name_;  // for messages after its end
};

// Tells a program from the one that an exec of the process put in its place: the random bytes that the kernel gives
// each program. Empty: they cannot be read.
std::string program_mark(const TracedProcess& process);

// The path of libculprit.so in the process's mappings, empty when it is not mapped.
std::string mapped_library(const std::vector<MappedRange>& mappings);

}  // namespace culprit::report
