// The short way for CUDA events (cuEventCreate, cuEventDestroy), of which a pair costs the driver 270 ns (H200, driver
// 580) where memory costs it 620: what is usual is one stretch of code inside the hook, because what it costs is mostly
// the bytes of code that it runs. Whatever is not as usual is left, before anything was changed, to the long way that
// everything else takes (events.h).
//
// All of it is thread-safe, keeps errno, never throws, and does nothing when recording is off.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/recorder/events.h"
#include "interpose/recorder/process.h"

namespace culprit {

// Recording for code that does nothing but load and store: there is no errno to keep, and nothing to say of a dump that
// can not grow. `process()` is nullptr where Recording has more to do than to look at two words; else this thread has
// `memory`, `paths` and `counters`.
class ShortRecording {
 public:
  __attribute__((always_inline)) ShortRecording() : process_(nullptr) {
    if (CULPRIT_UNLIKELY(thread_state.in_tracker)) return;
    process_ = process_at_hand();
    if (CULPRIT_LIKELY(process_ != nullptr)) thread_state.in_tracker = true;
  }
  __attribute__((always_inline)) ~ShortRecording() {
    if (CULPRIT_LIKELY(process_ != nullptr)) thread_state.in_tracker = false;
  }
  ShortRecording(const ShortRecording&) = delete;
  ShortRecording& operator=(const ShortRecording&) = delete;
  Process* process() const { return process_; }

 private:
  Process* process_;
};

// An event was made: notes it, or returns false.
__attribute__((always_inline)) inline bool note_cuda_event(Api api, std::uint64_t handle) {
  ShortRecording recording;
  Process* process = recording.process();
  if (CULPRIT_UNLIKELY(process == nullptr)) return false;
  ThreadState& thread = thread_state;
  if (CULPRIT_UNLIKELY(process->mode.load(std::memory_order_acquire) != 0) ||
      CULPRIT_UNLIKELY(thread.context_epoch != process->contexts.epoch()) ||
      CULPRIT_UNLIKELY(thread.label == kUnresolvedLabel) || CULPRIT_UNLIKELY(handle == 0))
    return false;
  ThreadMemory& memory = *thread.memory;
  const YoungRecords::Spare spare = LiveTable::spare_event(&memory.records, thread.context_place.device);
  if (CULPRIT_UNLIKELY(spare.ref == 0)) return false;
  const auto* frame = reinterpret_cast<const std::uint64_t*>(thread.outermost_hook);
  std::uint32_t path = 0;
  format::Ref stack = memory.stacks.look_up_last(frame, module_generation.load(std::memory_order_acquire), &path);
  if (CULPRIT_UNLIKELY(stack == 0)) return false;
  thread.paths->see(path);
  std::uint64_t now = event_ns(*process);
  process->live.make_event(
      handle, spare,
      [&](format::AllocationRecord* fields) {
        fields->stack = stack;
        fields->time_ns = now;
        fields->context = thread.context_place.context;
        fields->evidence = 0;
        fields->api = static_cast<std::uint16_t>(api);
        fields->flags = 0;
        fields->label = thread.label;
      },
      process->dump, &memory.records);
  ++thread.made;
  count_allocation(*thread.counters, stack, 0, process->dump);
  return true;
}

// Before the driver destroys an event: notes its end when the calling thread has it to itself, and returns its record;
// else 0, and the long way has to be taken. When the driver refuses, take_back_cuda_event() has to follow.
__attribute__((always_inline)) inline format::Ref end_cuda_event(std::uint64_t handle) {
  ShortRecording recording;
  Process* process = recording.process();
  if (CULPRIT_UNLIKELY(process == nullptr) || CULPRIT_UNLIKELY(handle == 0)) return 0;
  format::Ref record = process->live.end_event(handle, process->dump, &thread_state.memory->records);
  if (CULPRIT_UNLIKELY(record == 0)) return 0;
  count_free(*thread_state.counters);
  ++thread_state.ended;
  return record;
}

// The driver refused with `status` to destroy the event of this record.
CULPRIT_COLD void take_back_cuda_event(Api api, std::uint64_t handle, format::Ref record, CUresult status);

}  // namespace culprit
