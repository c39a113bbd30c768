// A thread of another process that is stopped, made to call functions, and let go as it was.
//
// The calls run on a stack that is mapped for them. It is laid out like a signal's, so that a thread that is left alone
// in the middle of a call (culprit was killed, or gave up) goes back to what it was doing by itself, as if a signal
// handler had ended. As long as culprit is there, it takes the thread out at the system call by which it goes back.
//
//     stack_begin   address of a return in libc                      the called function returns here
//                   address of libc's code that ends signal handlers
//                   registers, vector state, signal mask             which that restores
//
// A second one like that lies on the thread's own stack, below what the thread may use, where the kernel would put a
// signal's: for the system calls that map and unmap the first. So there is no moment from which the thread would not
// find back by itself; but where it stands on a stack that is not the one that libc gave it (a coroutine's), of which
// nobody knows where it ends, it has no second one.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "report/attach/registers.h"
#include "report/attach/traced_process.h"

namespace culprit {

using Deadline = std::chrono::steady_clock::time_point;

// Waits for stops of traced threads, with a time limit and without losing SIGINT, SIGTERM and SIGHUP. Blocks them, and
// SIGCHLD, as long as it lives.
class StopWaiter {
 public:
  StopWaiter();
  ~StopWaiter();
  StopWaiter(const StopWaiter&) = delete;
  StopWaiter& operator=(const StopWaiter&) = delete;

  enum class Event { kStopped, kGone, kTimeout };
  Event wait(pid_t thread, Deadline deadline, int* status);

  // Waits for a moment, or for a signal to end everything.
  void pause(std::chrono::milliseconds time);

  // The signal that asked for the end, 0 = none.
  int interrupted() const { return interrupted_; }

 private:
  void take_signal(std::chrono::nanoseconds limit);

  sigset_t watched_;
  sigset_t before_;
  int interrupted_ = 0;
};

enum class CallEnd {
  kReturned,
  kGone,         // the thread ended: the process did, or replaced itself by another program
  kCrashed,      // a signal like SIGSEGV: the thread was put back
  kBlocked,      // it waited for the loader's lock, and was put back
  kLeftRunning,  // time was up: the call goes on, and the thread goes back to its work when it is done
};

class HijackedThread {
 public:
  enum class Stop { kStopped, kGone, kBusy, kGroupStopped };

  // Stops the thread; the others run on. kBusy: not within the time limit (it is in the kernel); it then stops later,
  // and runs on as soon as this process ends: `again` says that it is asked for the second time. Throws AttachError
  // when the system forbids it.
  static Stop stop(const TracedProcess& process, pid_t thread, bool again, StopWaiter* waiter, Deadline deadline);
  // Lets a thread run on that was stopped and has not been changed.
  static void release(pid_t thread);
  // Whether it stands in a stretch of code that is made anew when it is interrupted (rseq), and must not be left in it.
  static bool in_restartable_sequence(const TracedProcess& process, pid_t thread);

  // Of a thread that stop() has stopped.
  HijackedThread(const TracedProcess& process, pid_t thread, const ReturnCode& code, StopWaiter* waiter);
  // Puts the thread back, if that has not been done.
  ~HijackedThread();
  HijackedThread(const HijackedThread&) = delete;
  HijackedThread& operator=(const HijackedThread&) = delete;

  // Maps `size` bytes for arguments, and the stack. Throws AttachError; the thread is put back then.
  void map_memory(std::uint64_t size, Deadline deadline);
  // The memory for arguments.
  std::uint64_t memory() const { return memory_; }
  void write(std::uint64_t address, const void* data, std::size_t size);
  bool read(std::uint64_t address, void* data, std::size_t size) const;
  std::string read_text(std::uint64_t address) const;

  // Calls a function. After anything but kReturned this object is of no more use. `result` may be null, and should be
  // where the function says what it has to say in another way: a thread that is left alone then makes no system call
  // but the one that ends a signal handler, else first one with the result for its number.
  CallEnd call(std::uint64_t function, const std::vector<std::uint64_t>& arguments, Deadline deadline,
               std::uint64_t* result);

  // Unmaps the memory and puts the thread back where it was, with everything that it had. False when it is gone.
  bool put_back();

  // Where the thread's errno lies, which is put back too.
  void keep_errno(std::uint64_t address);

  // The loader's writable memory, in which its locks lie.
  void set_loader_data(std::vector<MappedRange> ranges) { loader_data_ = std::move(ranges); }

 private:
  enum class At { kStart, kEntry, kExit, kNowhere };
  bool resume(std::uint64_t signal_number = 0);
  void find_own_stack();
  void block_signals();
  bool next_stop(Deadline deadline, int* status);
  bool inject_system_call(long number, const std::vector<std::uint64_t>& arguments, Deadline deadline,
                          std::int64_t* result);
  bool waits_for_loader() const;
  bool stop_running(Deadline deadline);
  void restore_stopped();

  const TracedProcess& process_;
  const pid_t thread_;
  const ReturnCode code_;
  StopWaiter* waiter_;
  ThreadRegisters before_;
  std::uint64_t signal_mask_ = 0;
  At at_ = At::kStart;
  bool gone_ = false;
  std::uint64_t memory_ = 0;
  std::uint64_t memory_size_ = 0;
  std::uint64_t stack_begin_ = 0;
  std::uint64_t own_stack_ = 0;  // what a system call returns to, below the thread's own stack; 0 = nothing
  std::uint64_t own_bytes_at_ = 0;
  std::vector<unsigned char> own_bytes_;  // that lay there
  std::uint64_t errno_at_ = 0;
  int errno_before_ = 0;
  std::vector<MappedRange> loader_data_;
};

}  // namespace culprit
