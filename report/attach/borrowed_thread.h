// A stopped thread of another process that has memory of its own for calls, and is restored afterwards.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interpose/format/attach_request.h"
#include "report/attach/call_signals.h"
#include "report/attach/registers.h"
#include "report/attach/stop_waiter.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

// The base of HijackedThread (hijacked_thread.h), which explains the stacks.
class BorrowedThread {
 public:
  enum class Stop { kStopped, kGone, kBusy, kGroupStopped };

  // Stops the thread; the others run on. kBusy: it did not stop within the time limit (it is in the kernel). `waiter`
  // then lets it go as soon as it stops. Throws AttachError when the system forbids it.
  static Stop stop(const TracedProcess& process, pid_t thread, StopWaiter* waiter, Deadline deadline);
  // The same for a thread that is traced already (PTRACE_SEIZE).
  static Stop stop_seized(const TracedProcess& process, pid_t thread, StopWaiter* waiter, Deadline deadline);
  // Lets a stopped and unchanged thread run on.
  static void release(pid_t thread);
  // Whether the thread is in a restartable sequence (rseq), which the kernel restarts after an interruption. Do not use
  // such a thread.
  static bool in_restartable_sequence(const TracedProcess& process, pid_t thread);

  // Whether a handler of the program gets the thread's system calls now (syscall user dispatch), as Wine's does.
  static bool dispatches_calls(const TracedProcess& process, pid_t thread);

  // For a thread that stop() has stopped.
  BorrowedThread(const TracedProcess& process, pid_t thread, const ReturnCode& code, StopWaiter* waiter);
  BorrowedThread(const BorrowedThread&) = delete;
  BorrowedThread& operator=(const BorrowedThread&) = delete;

  pid_t thread() const { return thread_; }

  // Maps `size` bytes for arguments, and the stack. Throws AttachError, with the thread restored.
  void map_memory(std::uint64_t size, Deadline deadline);
  // The memory for arguments.
  std::uint64_t memory() const { return memory_; }
  void write(std::uint64_t address, const void* data, std::size_t size);
  bool read(std::uint64_t address, void* data, std::size_t size) const;
  std::string read_text(std::uint64_t address) const;

  // Once the thread has ended in its own work: what is still mapped for it. Another one that is borrowed can unmap it,
  // in the end.
  struct Memory {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
  };
  Memory left_memory() const { return has_ended_ && has_finished() ? Memory{memory_, memory_size_} : Memory(); }

  // The registers and the state that it resumes its own work with.
  const ThreadRegisters& own_registers() const { return before_; }
  // All that is mapped for calls.
  Memory call_memory() const { return {memory_, memory_size_}; }
  void unmap_too(const Memory& left_by_other) { left_by_other_ = left_by_other; }

  // The address of the thread's errno, which is restored too.
  void keep_errno(std::uint64_t address);

  // Instructions of the library that may raise a signal.
  void set_fault_table(std::vector<format::FaultEntry> table) { fault_table_ = std::move(table); }

  // The lowest address of the thread's own stack (thread_stack.h). Without it there is no second frame.
  void set_stack_floor(std::uint64_t address) { stack_floor_ = address; }

 protected:
  static constexpr std::chrono::milliseconds kShort{500};
  static constexpr std::chrono::milliseconds kLong{5000};  // to restore it: it waits for a processor at most
  enum class At { kStart, kEntry, kExit, kNowhere };
  bool resume(std::uint64_t signal_number = 0);
  SignalOrigin origin_of_signal(int status, std::string* description) const;
  bool goes_on_behind(const siginfo_t& info, ThreadRegisters* registers) const;
  std::uint64_t signal_to_resume_with(int status, SignalOrigin origin);
  void find_own_stack();
  std::uint64_t mask_in_call() const;
  std::uint64_t mask() const;
  void set_mask(std::uint64_t mask);
  bool next_stop(Deadline deadline, int* status);
  bool inject_system_call(long number, const std::vector<std::uint64_t>& arguments, Deadline deadline,
                          std::int64_t* result);
  bool has_finished() const;
  bool is_in_own_work() const;
  void restore_stopped();
  // Unmaps the memory and restores the thread's position and state. False when the thread is gone.
  bool restore();

  const TracedProcess& process_;
  const pid_t thread_;
  const ReturnCode code_;
  StopWaiter* waiter_;
  ThreadRegisters before_;
  std::uint64_t signal_mask_ = 0;
  At at_ = At::kStart;
  bool gone_ = false;              // it is not to be traced any more
  bool has_ended_ = false;         // ... because it has ended
  bool follows_calls_ = true;      // the thread stops at each of its system calls
  std::uint64_t finished_at_ = 0;  // ... or tells the end of its call here
  std::uint64_t memory_ = 0;
  std::uint64_t memory_size_ = 0;
  Memory left_by_other_;
  std::uint64_t stack_begin_ = 0;
  std::uint64_t stack_floor_ = 0;
  std::uint64_t own_stack_ = 0;  // return address for system calls, below the thread's own stack; 0 = none
  std::uint64_t own_bytes_at_ = 0;
  std::vector<unsigned char> own_bytes_;  // the original content
  std::uint64_t errno_at_ = 0;
  int errno_before_ = 0;
  std::string crash_;
  std::vector<format::FaultEntry> fault_table_;
};

}  // namespace culprit::report
