// One step of an attach or a detach: a thread of the program is borrowed for a short call into the library. Where the
// library is not there yet, another thread loads it before: both together would stop one for too long.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/attach/hijacked_thread.h"
#include "report/attach/injection.h"
#include "report/attach/library_for_target.h"
#include "report/attach/loaded_list.h"
#include "report/attach/loader_turn.h"
#include "report/attach/stop_waiter.h"
#include "report/attach/target_libc.h"
#include "report/attach/thread_choice.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

// For one process and one order. The functions throw AttachError.
class StepCaller {
 public:
  using AttachStep = format::AttachStep;
  using AttachResult = format::AttachResult;
  using Places = std::vector<std::uint64_t>;

  StepCaller(const TracedProcess& process, const InjectionOrder& order, InjectionFacts* facts)
      : process_(process), order_(order), facts_(facts), waiter_(process), choice_(process, &waiter_) {}

  // Tries again while another thread loads a library, or is in a CUDA call of an earlier attach.
  format::AttachRequest step(AttachStep step, const Places& places);
  // From now on the steps end what the attach has begun.
  void begin_undoing() { undoing_ = true; }
  bool is_undoing() const { return undoing_; }
  bool attaches() const { return order_.what == Injection::kAttach; }
  // A memory barrier of all threads was made, or not, from outside.
  void note_threads_met(bool met) { threads_met_ = met; }

  StopWaiter& waiter() { return waiter_; }
  // A signal to this process came.
  bool interrupted() { return waiter_.interrupted() != 0; }
  // A thread was stopped once.
  bool has_stopped_thread() const { return thread_is_stopped_; }
  // Throws when the program has ended, or replaced itself by another one.
  void check_same_program() const;
  // Of a thread that ended after its call. Not worth a message where it fails.
  void unmap_left_memory();
  // Stores the times and numbers of all steps.
  void tell_facts();

 private:
  // Where the library can be asked; while no thread is stopped, because it takes time.
  void find_functions();
  std::vector<format::FaultEntry> read_fault_table(std::uint64_t place) const;
  AttachError unsafe_error() const;
  bool stops_all(AttachStep step) const;
  // As ask(), while all other threads are stopped. kLoading: they cannot be stopped now.
  format::AttachRequest ask_alone(HijackedThread* hijacked, const ChosenThread& borrowed, AttachStep step,
                                  std::size_t room);
  format::AttachRequest borrow(AttachStep step, const Places& places);
  // Looks at the program and stops a thread of it. Begins again when the program was replaced (exec) in between,
  // because what was found is then another program's; but not after the first step.
  ChosenThread stop_thread();
  // A thread that loads a large library may have the loader's lock for seconds. Until something changes there, no
  // thread is borrowed.
  void await_loader();
  AttachError replaced_error() const;
  // Whether the library was loaded since the last look, as the loader tells it.
  bool has_library() const;
  // Looks at the rest, which needs a stopped thread. Throws AttachError.
  void check_stopped(pid_t thread, const TargetLibc& libc) const;
  AttachError replaced_all_the_time() const;
  AttachError left_lock_error() const;
  // Whether one of the running threads keeps the loader's lock. One in a short dlopen() gives it back meanwhile.
  bool keeps_loader_lock() const;
  // A child that another thread forks in the middle of dlopen() would have the loader in that state for ever. So the
  // lock of libc's list of open files is held meanwhile: fork() takes it first, and waits. False:
  // another thread has it. The thread was restored.
  bool hold_forks(HijackedThread* hijacked, const TargetLibc& libc);
  // False: another thread has a lock of the loader, or the one of hold_forks(). The thread was restored.
  bool load(HijackedThread* hijacked, const TargetLibc& libc, const std::string& path);
  format::AttachRequest ask(HijackedThread* hijacked, AttachStep step, const Places& places);
  void pass(LoaderTurn* turn, const HijackedThread& hijacked);
  void note_stop(std::chrono::nanoseconds time);
  void check(const HijackedThread& hijacked, CallEnd end) const;
  std::string crashed(const HijackedThread& hijacked) const;

  static constexpr std::uint64_t kMostOfFaultTable = 4096;
  static constexpr int kMostTries = 20;  // for a lock that another thread may keep

  const TracedProcess& process_;
  const InjectionOrder& order_;
  InjectionFacts* facts_;
  StopWaiter waiter_;
  ThreadChoice choice_;
  TargetLibc libc_;
  std::optional<LibraryForTarget> library_;  // when it is not loaded yet
  std::optional<LoadedList> libraries_;      // ... as they were then
  bool is_loaded_ = false;                   // libculprit.so
  std::string function_;
  std::uint64_t function_at_ = 0;  // 0: it has no such function
  std::vector<format::FaultEntry> fault_table_;
  bool undoing_ = false;
  bool threads_met_ = false;
  int tries_to_hold_forks_ = 0;
  std::chrono::nanoseconds longest_stop_{0};
  HijackedThread::Memory left_memory_;  // of a thread that ended after its call
  Deadline deadline_;                   // of the present step
  std::string program_;                 // the mark of the program that was looked at
  std::string unsafe_;                  // why the other threads could not be stopped together
  bool thread_is_stopped_ = false;
  bool begun_ = false;       // a thread was borrowed once
  bool loaded_now_ = false;  // ... and has just loaded the library, and nothing else
};

}  // namespace culprit::report
