// The fast path for CUDA events and streams, which threads make and destroy in loops. A pair of such calls costs the
// driver 270 ns for an event and 4.4 us for a stream (H200, driver 580), an allocation and its free 620 ns. The usual
// case is inlined into the hook, because its cost is mostly the bytes of code that it runs. In any other case the fast
// path returns before it changed anything, and the call takes the general path (events.h).
//
// All of it is thread-safe, keeps errno, never throws, and does nothing when recording is off.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/events/events.h"
#include "interpose/events/streams.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/process/recording.h"

namespace culprit {

// The kinds that have this path.
constexpr bool has_short_lives(format::Kind kind) {
  return kind == format::Kind::kEvent || kind == format::Kind::kStream;
}

// Records a new thing of this kind, or returns false.
template <format::Kind kind>
__attribute__((always_inline)) inline bool note_short_life(Api api, std::uint64_t handle) {
  Recording recording(Recording::Kind::kQuick);
  Process* process = recording.process();
  if (CULPRIT_UNLIKELY(process == nullptr)) return false;
  ThreadState& thread = thread_state;
  if (CULPRIT_UNLIKELY(process->mode.load(std::memory_order_acquire) != 0) ||
      CULPRIT_UNLIKELY(thread.dump.context.epoch != process->tables.contexts.epoch()) ||
      CULPRIT_UNLIKELY(thread.marks.label == kUnresolvedLabel) || CULPRIT_UNLIKELY(handle == 0))
    return false;
  ThreadMemory& memory = *thread.memory;
  const YoungRecords::Spare spare = LiveTable::spare<kind>(&memory.records, thread.dump.context.place.device);
  if (CULPRIT_UNLIKELY(spare.ref == 0)) return false;
  const auto* frame = reinterpret_cast<const std::uint64_t*>(thread.outermost_hook);
  std::uint32_t path = 0;
  format::Ref stack = memory.stacks.look_up_expected(frame, module_generation(), &path);
  if (CULPRIT_UNLIKELY(stack == 0)) return false;
  thread.paths.all->see(path);
  std::uint64_t now = event_ns(*process);
  process->tables.live.make_in_spare<kind>(
      handle, spare,
      [&](format::AllocationRecord* fields) {
        fields->stack = stack;
        fields->time_ns = now;
        fields->context = thread.dump.context.place.context;
        fields->evidence = 0;
        fields->api = static_cast<std::uint16_t>(api);
        fields->flags = 0;
        fields->label = thread.marks.label;
      },
      process->dump, &memory.records);
  ++thread.sums.made;
  count_allocation(*thread.dump.counters, stack, 0, process->dump);
  count_object(*thread.dump.counters);
  if constexpr (kind == format::Kind::kStream) note_stream_made(handle);
  return true;
}

// Call before the driver destroys it. If it is among the calling thread's young records, records its end and returns
// its record. Otherwise returns 0, and the caller must take the general path. When the driver refuses, follow with
// take_back_short_life().
template <format::Kind kind>
__attribute__((always_inline)) inline format::Ref end_short_life(std::uint64_t handle) {
  Recording recording(Recording::Kind::kQuick);
  Process* process = recording.process();
  if (CULPRIT_UNLIKELY(process == nullptr) || CULPRIT_UNLIKELY(handle == 0)) return 0;
  format::Ref record = process->tables.live.end_young<kind>(handle, process->dump, &thread_state.memory->records);
  if (CULPRIT_UNLIKELY(record == 0)) return 0;
  count_free(*thread_state.dump.counters);
  count_object_free(*thread_state.dump.counters);
  ++thread_state.sums.ended;
  if constexpr (kind == format::Kind::kStream)
    note_stream_gone(*process, *process->dump.at<format::AllocationRecord>(record));
  return record;
}

// The driver refused with `status` to destroy the thing of this record.
CULPRIT_COLD void take_back_short_life(Api api, format::Kind kind, std::uint64_t handle, format::Ref record,
                                       CUresult status);

}  // namespace culprit
