// Asks `culprit run` for NVML's account of a device (format/gpu_questions.h).
#pragma once

#include <cstdint>

#include "interpose/base/skip_lock.h"
#include "interpose/format/dump_records.h"
#include "interpose/format/gpu_questions.h"

namespace culprit {

struct Process;

// All zeros: closed.
class GpuQuestions {
 public:
  // The purpose of an answer: a measured call; a balance; or a reading that comes once and is worth longer waits, the
  // first context and the last balance.
  enum class For : std::uint8_t { kCall, kBalance, kFirstContext, kLastBalance };

  // Reaches for the file. Call once, on the tracker's own stack, when recording starts.
  void open(Process& process);
  void close();
  bool may_be_answered() const { return file_ != nullptr && problem_ == format::GpuProblem::kNone; }

  // The account of a device on which the calling thread has a context; one with a `problem`, if there is none. Waits
  // for at most a millisecond, and for a hundredth of the time in all; not at all while an answer is overdue, another
  // thread asks, or a stream is captured, and never in a signal handler. For kFirstContext and kLastBalance it waits
  // for an overdue answer, too, for three milliseconds whatever the share is; for kLastBalance for 25 within the share.
  // `state`: as long as it is the same, the process's bytes are, so that a late answer is
  // still right; 0: not known. Call without a lock, on the tracker's own stack.
  void ask(Process& process, std::uint8_t device, For whom, std::uint64_t state, format::GpuAccount* account);

 private:
  using Problem = format::GpuProblem;
  Problem take_place(Process& process);
  Problem wait(Process& process, std::uint32_t number);
  static bool comes_once(For whom);
  bool has_time(Process& process) const;
  void take_answer(Process& process, std::uint32_t number, For whom, format::GpuAccount* account);
  void ask_in_place(Process& process, const format::DeviceRecord& device, For whom, std::uint64_t state,
                    format::GpuAccount* account);

  format::GpuQuestions* file_;
  format::GpuQuestion* place_;
  Problem problem_;
  SkipLock busy_;
  std::uint64_t waited_ns_;
  std::uint64_t state_;  // of the last question, until its answer was taken
};

}  // namespace culprit
