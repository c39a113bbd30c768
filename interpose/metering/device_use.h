// The order in which a process works on its devices, for the report's stray contexts: one that was used for a moment,
// by a library or before cudaSetDevice(), while the work is elsewhere. Judged by order, never by time: a checkpoint may
// load for a minute, and a job may last for two seconds.
//
// A stretch of making is a series of allocations, code and streams on one device without any on another one. A stretch
// of launches is a series of launches in one context. Only the first call of a stretch costs more than a comparison.
// Events do not count: a copy from one GPU to another makes them on both (PyTorch).
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"

namespace culprit {

struct Process;

// All zeros = nothing was used. Thread-safe.
class DeviceUse {
 public:
  // Something was made on the device. On any stack.
  void note_made(Process& process, std::uint8_t device) {
    if (CULPRIT_UNLIKELY(last_made_.load(std::memory_order_relaxed) != device + 1U)) begin_making(process, device);
  }
  // A kernel or a graph is launched in this context; nullptr: not known.
  __attribute__((always_inline)) void note_launch(CUcontext context) {
    if (CULPRIT_UNLIKELY(last_launch_.load(std::memory_order_relaxed) != context)) begin_launches(context);
  }
  // Code of the program may have stored pointers in variables of the device or in the heap of its kernels: a kernel or
  // a graph was launched, or the address of a variable was asked for.
  void note_code(CUcontext context);
  bool has_run_code() const { return code_contexts_[0].load(std::memory_order_relaxed) != nullptr; }
  // Code was launched on the default stream of a thread (CU_STREAM_PER_THREAD).
  void note_default_stream_of_thread() { uses_default_streams_of_threads_.store(true, std::memory_order_relaxed); }
  bool uses_default_streams_of_threads() const {
    return uses_default_streams_of_threads_.load(std::memory_order_relaxed);
  }
  // Calls visit(context) for each context in which that happened; some may have ended since. Returns false when there
  // were too many, or one is not known.
  template <typename Visit>
  bool for_each_code_context(Visit visit) const {
    for (const std::atomic<CUcontext>& place : code_contexts_) {
      if (CUcontext context = place.load(std::memory_order_relaxed)) visit(context);
    }
    return !misses_contexts_.load(std::memory_order_relaxed);
  }

 private:
  CULPRIT_COLD void begin_making(Process& process, std::uint8_t device);
  CULPRIT_COLD void begin_launches(CUcontext context);

  std::atomic<CUcontext> last_launch_;
  std::atomic<std::uint32_t> launch_stretches_;  // of all devices
  std::atomic<std::uint32_t> last_made_;         // device + 1
  std::atomic<std::uint32_t> order_;
  static constexpr int kMostContexts = 32;
  std::atomic<CUcontext> code_contexts_[kMostContexts];
  std::atomic<bool> uses_default_streams_of_threads_;
  std::atomic<bool> misses_contexts_;  // there were more, or one that is not known
};

}  // namespace culprit
