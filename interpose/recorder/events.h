// What hooks report: something was made, something is about to end and did or did not, a context went away.
// Every function here is thread-safe, keeps errno, never throws, and does nothing when recording is off.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/dump/contexts.h"
#include "interpose/dump/live_table.h"
#include "interpose/format/device_bytes.h"
#include "interpose/format/dump_format.h"

namespace culprit {

struct Process;

// Where a row says its allocation lives.
struct Where {
  enum class By { kCurrentContext, kDevice, kStream } by = By::kCurrentContext;
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

// The driver made something. In two versions, because nearly every caller knows when it is compiled which it needs:
// for memory and what is special, and for what is nothing but a handle in the current context.
CULPRIT_HOT void note_any_made(const Made& made, std::uint8_t space);
CULPRIT_HOT void note_handle_made(Api api, format::Kind kind, std::uint64_t handle, std::uint8_t space);
inline void note_made(const Made& made) {
  if (!is_memory(made.kind) && made.bytes == 0 && made.extra == 0 && made.where.by == Where::By::kCurrentContext &&
      made.flags == 0) {
    note_handle_made(made.api, made.kind, made.handle, space_of(made.kind));
  } else {
    note_any_made(made, space_of(made.kind));
  }
}

// A call that ends something: begin() before the driver is called, finish() with its answer.
class Ending {
 public:
  // `kind`: what this function ends; the handle is looked up among everything that could be mistaken for it. Handle 0
  // is nothing.
  Ending(Api api, format::Kind kind, std::uint64_t handle) : api_(api), kind_(kind), handle_(handle) {
    if (handle != 0) begin(space_of(kind), is_memory(kind));
  }
  // The same where the look-up gave `record` already (LiveTable::take()).
  Ending(Api api, format::Kind kind, std::uint64_t handle, format::Ref record)
      : api_(api), kind_(kind), handle_(handle), record_(record) {}
  CULPRIT_HOT void finish(CUresult status);

 private:
  CULPRIT_HOT void begin(std::uint8_t space, bool memory);
  CULPRIT_COLD void record_refusal(Process& process, CUresult status);
  void record_refusal_here(Process& process, CUresult status);

  Api api_;
  format::Kind kind_;
  std::uint64_t handle_;
  format::Ref record_ = 0;
  format::Ref stack_ = 0;
};

// The runtime refused a free because it is unloading, and did not ask the driver: given back late.
void note_late_free(format::Kind kind, std::uint64_t handle);

// A call that destroys a context or resets a device, in the same two steps.
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

// Memory was made (or, negative, ended) on a device.
void change_live_bytes(Process& process, std::uint8_t device, std::int64_t change);

// Adds what the calling thread holds back to its device's sum of live bytes.
CULPRIT_COLD void flush_live_bytes(Process& process);

// Counts every device's live bytes anew, exactly. Walks all live allocations.
void sum_live_bytes(Process& process);

// A record that names `thread` was dropped by the calling thread.
void count_gone(Process& process, std::uint32_t thread);

// The stack-independent part of "something was given back": counters, the device's sum, the thread's.
void count_end(Process& process, const format::AllocationRecord& record, bool explicitly);

}  // namespace culprit
