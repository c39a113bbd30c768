// The table of the system calls in which a thread may be stopped, because the program does not notice it.
//
// A ptrace stop wakes a thread that sleeps in a system call. Most calls are then continued by the kernel; signal(7)
// names those that return EINTR instead. A call that has moved a part of its bytes returns short, and one that is made
// again waits for its whole time-out again. So a call is stopped only with a row of the table, which also tells on
// which of its arguments that depends. Measured for each row by tests/process/attach_calls_test.cpp.
//
// Rejected: finishing an interrupted call for the program. The registers that name the rest of the work would be wrong
// if culprit were killed meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/attach/traced_process.h"
#include "report/base/descriptor.h"

namespace culprit::report {

enum class StopEffect {
  kNone,   // the kernel continues the call with what is left of its time
  kAgain,  // it returns EINTR, and is as before once repeat_interrupted_call() has repeated it: it has no time-out
  kSeen,   // the program would see it, or that is not known
};

class BlockingCalls {
 public:
  explicit BlockingCalls(const TracedProcess& process);

  // For a thread that sleeps in this call.
  StopEffect effect(const ThreadCall& call) const;

  // The number under which the program made the call. After an interruption the kernel continues some by the call
  // restart_syscall.
  long number(const ThreadCall& call) const;

  // Whether a call that the kernel continues is the earlier one.
  static bool continues(const ThreadCall& call, const ThreadCall& earlier);

  // Where the call stores, when it is interrupted, how much time remains, although a call that is continued stores
  // nothing; 0 = nowhere. Two words.
  std::uint64_t remainder_at(const ThreadCall& call) const;

  // Whether the call may have moved a part of its bytes when it is interrupted, or is of an unknown kind. A call that
  // is not can be repeated when it was interrupted at its very beginning.
  static bool moves_parts(long number);

  // Whether a call that ended with this result may have moved less than it would have without an interruption.
  static bool is_cut(const ThreadCall& call, std::int64_t result);

  // "epoll_wait", or "system call 17".
  static std::string name(long number);

 private:
  enum class Rule;
  struct Row;
  static const Row kRows[];
  bool reads_whole(int file, bool message) const;
  static const Row* row_of(long number);
  std::optional<Descriptor> duplicate(int file) const;
  bool is_writable(std::uint64_t address) const;

  const TracedProcess& process_;
  Descriptor process_file_;
  bool keeps_time_outs_ = false;  // the personality under which select() leaves its time-out as it is
};

// The program's words where a call stores how much time remains, taken before a stop: the program expects them, as the
// call is continued.
class KeptRemainder {
 public:
  KeptRemainder() = default;
  // `at`: BlockingCalls::remainder_at().
  KeptRemainder(const TracedProcess& process, std::uint64_t at);
  void put_back(const TracedProcess& process) const;

 private:
  std::uint64_t at_ = 0;
  std::uint64_t words_[2] = {};
};

}  // namespace culprit::report
