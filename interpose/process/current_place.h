// The context and the device that are current to the calling thread.
#pragma once

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/driver/driver.h"
#include "interpose/process/process.h"
#include "interpose/process/thread_state.h"

namespace culprit {

// Asks the driver for the current context, and caches its place.
CULPRIT_COLD Place ask_current_place(Process& process);

// With CULPRIT_VERIFY_STACKS=1: compares the cached place with the driver's answer, and counts mismatches.
CULPRIT_COLD void verify_place(Process& process, Place remembered);

// The place of the context that is current to the calling thread. It is cached, because a query of the driver costs as
// much as the rest of recording an event.
inline Place current_place(Process& process) {
  if (CULPRIT_UNLIKELY(thread_state.dump.context.epoch != process.tables.contexts.epoch()))
    return ask_current_place(process);
  Place place = thread_state.dump.context.place;
  if (CULPRIT_UNLIKELY((process.mode.load(std::memory_order_relaxed) & kModeVerify) != 0)) verify_place(process, place);
  return place;
}

// The context that is current to the calling thread; nullptr: none, or not known. Only a call of the driver when the
// place is not cached.
inline CUcontext current_context(const Process& process) {
  const auto& known = thread_state.dump.context;
  if (CULPRIT_LIKELY(known.epoch == process.tables.contexts.epoch())) return known.handle;
  CUcontext current = nullptr;
  return driver_ready() && driver().cuCtxGetCurrent(&current) == CUDA_SUCCESS ? current : nullptr;
}

}  // namespace culprit
