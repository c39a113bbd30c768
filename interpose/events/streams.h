// Tells the rest that a stream was made or ended: allocations that name the stream get their place from its record
// (StreamMemo), and later streams may take its memory (StreamUse).
#pragma once

#include <cstdint>

#include "interpose/driver/api.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/format/dump_format.h"
#include "interpose/metering/metering_state.h"
#include "interpose/process/process.h"
#include "interpose/process/thread_state.h"

namespace culprit {

// The driver may reuse the handle of a destroyed stream. note_stream_gone() tells all threads; after an end that was
// not seen, the thread that gets the handle again forgets the old place at least.
inline void note_stream_made(std::uint64_t handle) {
  CUstream& known = thread_state.dump.stream.handle;
  if (reinterpret_cast<std::uint64_t>(known) == handle) known = nullptr;
}

// Call before the driver may give the handle out again, and when find() has the record no more.
inline void note_stream_gone(Process& process, const format::AllocationRecord& record) {
  process.hooks.stream_epoch.fetch_add(1, std::memory_order_release);
  meter_of(process).note_stream_ended(record.context, static_cast<Api>(record.api));
}

// The driver refused to destroy it, after note_stream_gone().
inline void note_stream_stays(Process& process, const format::AllocationRecord& record) {
  meter_of(process).note_stream_stays(record.context, static_cast<Api>(record.api));
}

}  // namespace culprit
