// The hooks report here that something was made, is about to be ended, was ended or refused, and that contexts are
// destroyed. Every function here is thread-safe, keeps errno, never throws, and does nothing when recording is off.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/dump/contexts.h"
#include "interpose/dump/live_table.h"
#include "interpose/events/graph_launches.h"
#include "interpose/format/device_bytes.h"
#include "interpose/format/dump_format.h"

namespace culprit {

struct Process;

// Where an allocation lives, as given by its row in hooks.def.
struct Where {
  enum class By { kCurrentContext, kDevice, kStream } by = By::kCurrentContext;
  // kDevice: negative = on none. kStream: of the pool; PoolPlaces::kUnknown = the stream's.
  int device = -1;
  CUstream stream = nullptr;
};

struct Made {
  Api api;
  format::Kind kind;
  std::uint64_t handle;
  std::uint64_t bytes;
  std::uint64_t extra;
  Where where = {};
  std::uint8_t flags = 0;
};

// The driver made something. There are two versions, and nearly every caller can choose at compile time: one for memory
// and special cases, one for things that are only a handle in the current context.
CULPRIT_HOT void note_any_made(const Made& made, std::uint32_t space);
CULPRIT_HOT void note_handle_made(Api api, format::Kind kind, std::uint64_t handle, std::uint32_t space);
// The short way for stream-ordered memory of the device's default pool, freed soon by its own thread. Returns false,
// without a change, in all other cases. The first is for at most kHeldBackBytes; follow with the second, for any size,
// and then with note_made().
CULPRIT_HOT bool note_memory_shortly(Api api, std::uint64_t handle, std::uint64_t bytes, CUstream stream);
CULPRIT_HOT bool note_large_memory_shortly(Api api, std::uint64_t handle, std::uint64_t bytes, CUstream stream);
inline void note_made(const Made& made) {
  // `extra` of an executable is its graph, which is not recorded.
  const bool no_extra = made.extra == 0 || made.kind == format::Kind::kGraphExec;
  if (!is_memory(made.kind) && made.bytes == 0 && no_extra && made.where.by == Where::By::kCurrentContext &&
      made.flags == 0) {
    note_handle_made(made.api, made.kind, made.handle, space_of(made.kind));
  } else {
    note_any_made(made, space_of(made.kind));
  }
  if (made.kind == format::Kind::kGraphExec) note_executable(made.handle, made.extra);
}

// The driver mapped VMM memory (Kind::kVmmMapping). `physical`: the record of the memory, 0 = not known.
void note_mapping_made(const Made& made, format::Ref physical);

// A call that ends something: begin() before the driver is called, finish() with its answer.
class Ending {
 public:
  // For stream-ordered memory: the short way first (short_memory.h). Follow with finish_short().
  enum class Short : std::uint8_t { kTried };
  __attribute__((always_inline)) Ending(Short, Api api, std::uint64_t handle)
      : api_(api), kind_(format::Kind::kStreamOrdered), handle_(handle) {
    if (CULPRIT_UNLIKELY(!begin_short())) begin(space_of(kind_), true);
  }
  __attribute__((always_inline)) void finish_short(CUresult status) {
    if (CULPRIT_UNLIKELY(status != CUDA_SUCCESS) || (CULPRIT_UNLIKELY(!end_short()) && !end_large())) finish(status);
  }

  // `kind`: the kind that this function ends; the handle is looked up in the space of that kind (live_table.h). Handle
  // 0 is ignored.
  __attribute__((always_inline)) Ending(Api api, format::Kind kind, std::uint64_t handle)
      : api_(api), kind_(kind), handle_(handle) {
    if (handle != 0) begin(space_of(kind), is_memory(kind));
  }
  // With the `record` that LiveTable::take() already returned.
  Ending(Api api, format::Kind kind, std::uint64_t handle, format::Ref record)
      : api_(api), kind_(kind), handle_(handle), record_(record) {}
  CULPRIT_HOT void finish(CUresult status);
  // The record that was found; 0 = none.
  format::Ref record() const { return record_; }

 private:
  CULPRIT_HOT void begin(std::uint8_t space, bool memory);
  CULPRIT_HOT bool begin_short();
  CULPRIT_HOT bool end_short();
  CULPRIT_HOT bool end_large();
  template <bool large>
  __attribute__((always_inline)) bool end_at_hand();
  CULPRIT_COLD void tell_of_begun(Process& process) const;
  CULPRIT_COLD void record_refusal(Process& process, CUresult status);
  void record_refusal_here(Process& process, CUresult status);

  Api api_;
  format::Kind kind_;
  std::uint64_t handle_;
  format::Ref record_ = 0;
  format::Ref stack_ = 0;
};

// The record of an Ending is live after all.
void put_back_ended(Process& process, format::Ref ref);

// The runtime refused a free because it is unloading, without calling the driver: counted as a late free.
void note_late_free(format::Kind kind, std::uint64_t handle);

// A call that destroys a context or resets a device: construct before the driver call, finish() after it.
class Teardown {
 public:
  Teardown(Api api, CUcontext handle);
  Teardown(Api api, CUdevice device_of_primary);
  void finish(CUresult status);

 private:
  void finish_here(Process* process, CUresult status);

  Api api_;
  std::uint32_t context_ = format::kNoIndex;
  format::Ref stack_ = 0;
};

void note_context_made(Api api, format::Kind kind, CUcontext handle, CUdevice device);

}  // namespace culprit
