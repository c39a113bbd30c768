// Counters at the end of what a record describes, however it ends: the thread's, the device's, the dump's.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/dump/live_table.h"
#include "interpose/format/device_bytes.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/process/process.h"
#include "interpose/process/thread_state.h"

namespace culprit {

// A record that names `thread` was dropped by the calling thread.
__attribute__((always_inline)) inline void count_gone(Process& process, std::uint32_t thread) {
  if (CULPRIT_LIKELY(thread == thread_state.index)) {
    ++thread_state.sums.ended;
  } else {
    process.tables.threads.count_gone_elsewhere(thread, process.dump);
  }
}

// The part of an end that needs no stack and is no call of the program: the device's sum, and the thread's.
__attribute__((always_inline)) inline void count_end(Process& process, const format::AllocationRecord& record) {
  count_gone(process, record.thread);
  if (!is_on_device(record.kind)) return;
  const auto bytes = static_cast<std::int64_t>(physical_bytes(record));
  change_live_bytes(process, record.device, record.kind, -bytes);
  if (CULPRIT_UNLIKELY(record.kind == format::Kind::kGraphMemory))
    graph_bytes_of(process).change(record.device, -bytes);
}

// The same for a call of the program that ended it.
inline void count_freed(Process& process, const format::AllocationRecord& record) {
  count_free(thread_state.dump.counters, process.dump);
  if (!is_memory(record.kind)) count_object_free(thread_state.dump.counters, process.dump);
  count_end(process, record);
}

}  // namespace culprit
