// The threads of a process beside the borrowed one: stopped all at once, where none of them holds a lock of malloc, of
// the loader or of the driver.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "report/attach/blocking_calls.h"
#include "report/attach/registers.h"
#include "report/attach/safe_point.h"
#include "report/attach/stop_waiter.h"
#include "report/attach/thread_stack.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

class BorrowedThread;

class OtherThreads {
 public:
  // `beside`: the thread that is left out.
  OtherThreads(const TracedProcess& process, pid_t beside, SafePointFinder* finder, StopWaiter* waiter);
  // Lets them run on.
  ~OtherThreads();
  OtherThreads(const OtherThreads&) = delete;
  OtherThreads& operator=(const OtherThreads&) = delete;

  // How much words() may have, about, for as many threads as there are now.
  static std::uint64_t most_words(const TracedProcess& process);

  // The thread that is left out was stopped, too, and has memory for a call. `stack_floor`: the lowest address of its
  // own stack. Call before stop_all().
  void note_borrowed(const BorrowedThread& borrowed, std::uint64_t stack_floor);

  // Returns false if one of them is in such a place, or does not stop in time: where() tells. Some may be stopped then.
  // Throws AttachError.
  bool stop_all();
  const std::string& where() const { return where_; }
  std::size_t count() const { return stopped_.size(); }

  // Parts of stacks that are not in use, the memory of the call, and registers, also of the borrowed thread: see
  // interpose/format/scan_state.h.
  std::vector<std::uint64_t> words() const;

 private:
  enum class Stopped { kDone, kNotNow, kNotAtAll };
  Stopped stop(pid_t thread);
  // Whether a stop would cut a call of the thread that moves bytes.
  bool would_be_cut(pid_t thread, const ThreadCall& call);
  bool is_safe(pid_t thread, StackWalk* walk);
  bool is_in_call_of_libc(const ThreadRegisters& registers) const;
  void note_stack(std::uint64_t floor, std::uint64_t pointer);
  void note_registers(pid_t thread, const ThreadRegisters& registers);

  const TracedProcess& process_;
  const pid_t beside_;
  SafePointFinder& finder_;
  StopWaiter* waiter_;
  const FirstStack first_;
  const BlockingCalls calls_;
  std::vector<pid_t> stopped_;
  std::vector<std::uint64_t> ranges_;
  std::vector<std::uint64_t> threads_;  // format::StoppedThread[]
  std::vector<std::uint64_t> registers_;
  std::vector<MappedRange> libc_;  // its code
  std::string where_;
};

}  // namespace culprit::report
