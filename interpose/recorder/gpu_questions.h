// Asks `culprit run` for NVML's account of a device (format/gpu_questions.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/format/gpu_questions.h"

namespace culprit {

struct Process;

// All zeros: closed.
class GpuQuestions {
 public:
  // Reaches for the file. Call once, on the tracker's own stack, when recording starts.
  void open(Process& process);
  void close();

  // The account of a device on which the calling thread has a context; one with a `problem`, if there is none. Waits
  // for at most a millisecond, and for a hundredth of the time in all; not at all while an answer is overdue, another
  // thread asks, or a stream is captured. Call without a lock, on the tracker's own stack.
  void ask(Process& process, std::uint8_t device, bool names, format::GpuAccount* account);

 private:
  using Problem = format::GpuProblem;
  Problem take_place(Process& process);
  Problem wait(Process& process, std::uint32_t number);

  format::GpuQuestions* file_;
  format::GpuQuestion* place_;
  Problem problem_;
  std::atomic<std::uint32_t> busy_;
  std::uint64_t waited_ns_;
};

}  // namespace culprit
