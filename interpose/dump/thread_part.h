// The data that each thread keeps for the tables of this folder.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/dump/contexts.h"
#include "interpose/format/dump_format.h"

namespace culprit {

class SpinLock;

// The place of the current context. Valid until the contexts' epoch changes or a call of this thread changes the
// current context (see changes_context() in hooks.h).
struct PlaceMemo {
  static constexpr std::uint32_t kNoEpoch = ~0U;

  std::uint32_t epoch;
  CUcontext handle;  // of `place`
  Place place;

  void forget() { epoch = kNoEpoch; }
};

// The place of the stream that memory was last allocated on. Valid until the streams' or the contexts' epoch changes.
struct StreamMemo {
  CUstream handle;
  std::uint32_t epoch;
  std::uint32_t context_epoch;
  Place place;
};

// The part of ThreadState (process/thread_state.h) that belongs to this folder.
struct DumpPart {
  format::ThreadCounters* counters;  // nullptr = no room in the dump
  PlaceMemo context;
  StreamMemo stream;
};

// The locks of this folder that the calling thread takes. A variable of its own, because the tables reach it.
struct ThreadLocks {
  std::uint32_t thread_id;  // the kernel's; 0 = not known yet
  SpinLock* shard;          // lock of the live table's shard that this thread holds or waits for; nullptr = none

  // The number under which this thread takes locks.
  std::uint32_t owner() const { return CULPRIT_LIKELY(thread_id != 0) ? thread_id : 1; }
};
extern CULPRIT_OWN __thread ThreadLocks thread_locks __attribute__((tls_model("initial-exec")));

}  // namespace culprit
