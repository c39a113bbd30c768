// Stops a thread of another process, makes it call functions, and restores it.
//
// The calls run on a stack that is mapped for them. It is laid out like a signal handler's, so that a thread that is
// abandoned in the middle of a call (culprit was killed, or gave up) resumes its work by itself, as if a signal handler
// had returned. As long as culprit is there, it stops the thread at the system call of that return.
//
//     stack_begin   address of a return in libc                      the called function returns here
//                   address of libc's code that ends signal handlers
//                   registers, vector state, signal mask             which that restores
//
// Where the thread shall run without a stop until the call has ended, it goes on to three more calls: of one that
// stores a word, which tells of the end, of one that waits to be seen, and, if it was not, of one that stores the time
// at which it resumes its work.
//
// A second frame of this kind lies on the thread's own stack, below the part in use, where the kernel would put a
// signal frame. It serves the system calls that map and unmap the first. So the thread can resume by itself at any
// moment. Exception: on a stack that did not come from libc (a coroutine's), whose end is not known, there is no second
// frame.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "report/attach/borrowed_thread.h"
#include "report/attach/call_signals.h"
#include "report/attach/registers.h"
#include "report/attach/stop_waiter.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

enum class CallEnd {
  kReturned,
  kGone,         // the thread ended: its process ended or called exec
  kCrashed,      // an instruction of the call raised a signal like SIGSEGV; the thread was restored
  kBlocked,      // it waited for the loader's lock, or the one of hold(); the thread was restored
  kLeftRunning,  // out of time: the call goes on, and the thread resumes its work afterwards
};

// Functions of libc; 0 = not found.
struct WaitFunctions {
  std::uint64_t set_context = 0;  // setcontext()
  std::uint64_t system_call = 0;  // syscall()
};

class HijackedThread : public BorrowedThread {
 public:
  // For a thread that stop() has stopped.
  using BorrowedThread::BorrowedThread;
  // Restores the thread, unless put_back() has done so.
  ~HijackedThread();
  HijackedThread(const HijackedThread&) = delete;
  HijackedThread& operator=(const HijackedThread&) = delete;

  // Calls a function. After any result but kReturned this object must not be used. Pass null for `result` if the
  // function reports in another way: an abandoned thread then makes only the system call that ends a signal handler.
  // Otherwise it first makes one whose number is the function's result.
  CallEnd call(std::uint64_t function, const std::vector<std::uint64_t>& arguments, Deadline deadline,
               std::uint64_t* result);

  // Calls a function whose system calls do not stop the thread. Calls that follow it tell its end, and wait for some
  // time. Without what that needs, as call(). `meanwhile` is called once, when the thread runs.
  CallEnd call_without_stops(std::uint64_t function, const std::vector<std::uint64_t>& arguments, Deadline deadline,
                             const WaitFunctions& wait, const std::function<void()>& meanwhile);
  // For `meanwhile`: whether the call has ended.
  using BorrowedThread::has_finished;
  // Whether the thread was not taken out of such a wait in time, and was borrowed again in the middle of its own work,
  // or has ended since. Then the only thing to do is put_back().
  bool has_resumed() const { return has_resumed_; }

  // The thread is stopped since then.
  void set_stopped(Deadline time) { stopped_ = time; }
  // After put_back(): the longest time for which it did not do its own work.
  std::chrono::nanoseconds longest_stop() const { return longest_stop_; }

  // Calls `lock`, whose lock is held during the next call. `unlock` follows that call at once, also when the thread is
  // abandoned at any moment. `idle`: a function that only makes the system call idle_number(). All without arguments.
  CallEnd hold(std::uint64_t lock, std::uint64_t idle, std::uint64_t unlock, Deadline deadline);

  // Restores the thread, after the rest of hold(). False when it has ended, or could not be stopped in time: it then
  // resumes its work by itself.
  bool put_back();

  // After kCrashed: the signal and its place, and what the call left behind ("" = nothing is known).
  const std::string& crash() const { return crash_; }
  const std::string& left_behind() const { return left_behind_; }

  // The loader's writable memory, which contains its locks.
  void set_loader_data(std::vector<MappedRange> ranges) { loader_data_ = std::move(ranges); }

 private:
  bool begin_call(std::uint64_t function, const std::vector<std::uint64_t>& arguments, std::uint64_t back,
                  const std::vector<std::uint64_t>& next = {});
  bool begin_call_at(std::uint64_t end, std::vector<std::uint64_t> returns, std::uint64_t function,
                     const std::vector<std::uint64_t>& arguments);
  std::vector<std::uint64_t> returns_to(const std::vector<std::uint64_t>& functions) const;
  std::vector<std::uint64_t> write_wait(const WaitFunctions& wait, std::uint64_t* end);
  CallEnd await_finished(Deadline deadline);
  CallEnd end_without_thread();
  void note_resumed();
  CallEnd await_end(bool has_result, Deadline deadline, std::uint64_t* result);
  bool sleeps_for_lock() const;
  CallEnd end_call_in_time();
  CallEnd end_blocked_call();
  CallEnd end_crashed_call();
  bool must_not_stop() const;
  bool take_out_of_wait(Deadline deadline);
  bool waits_for_loader() const;
  bool restore_after_hold();
  bool stop_running(Deadline deadline);
  bool resume_stopped();
  bool is_in_handler_of_users() const;

  bool has_resumed_ = false;
  std::uint64_t resumed_at_ = 0;  // where it stores when that was; 0 = nowhere
  Deadline stopped_ = std::chrono::steady_clock::now();
  std::chrono::nanoseconds longest_stop_{0};
  bool holds_users_ = false;   // kOfUsers was blocked at a stop
  std::uint64_t locking_ = 0;  // hold() runs: where its `idle` finds the stack pointer
  bool stops_at_idle_ = false;
  std::uint64_t unlock_ = 0;  // the lock of hold() is held: the function that releases it
  std::string left_behind_;
  std::vector<MappedRange> loader_data_;
};

}  // namespace culprit::report
