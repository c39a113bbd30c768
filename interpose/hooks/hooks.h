// Shared by the hook files: the guard for nested calls, properties of rows, the values that a row may use, and the
// custom bodies. Compile with __CUDA_API_VERSION_INTERNAL (see hooks.def).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/causes/failed_calls.h"
#include "interpose/driver/api.h"
#include "interpose/driver/entry_points.h"
#include "interpose/events/events.h"
#include "interpose/events/pool_places.h"
#include "interpose/events/sharing.h"
#include "interpose/events/short_lives.h"
#include "interpose/hooks/array_bytes.h"
#include "interpose/hooks/saturating.h"
#include "interpose/metering/executables.h"
#include "interpose/metering/metered_calls.h"
#include "interpose/process/hook_entry.h"
#include "interpose/process/thread_state.h"

namespace culprit {

// A hook that is entered while the thread is, or seems to be, in another one. A call by a signal handler that
// interrupted the driver is the user's call, and is handled like any other. A call that the driver or another
// interposer makes while it serves a user's call goes straight to libcuda and is not recorded.
class Reentry {
 public:
  explicit Reentry(const char* frame) { begin(frame); }
  ~Reentry() { end(); }
  Reentry(const Reentry&) = delete;
  Reentry& operator=(const Reentry&) = delete;
  bool is_users() const { return entry_ == Entry::kInHandler; }
  bool is_first() const { return entry_ == Entry::kOutermost; }
  // The function that this row's hook must call.
  template <typename Function>
  Function* target(Api api) const {
    return reinterpret_cast<Function*>(entry_ == Entry::kNested ? driver_address(api) : next_address(api));
  }

 private:
  // Out of line (other_drivers.cpp): inlined, they would take registers from the usual path of each hook.
  CULPRIT_COLD void begin(const char* frame);
  CULPRIT_COLD void end();
  void choose_driver(const char* frame);

  LoadedDriver* interrupted_driver_;
  bool changed_driver_;
  Entry entry_;
  const char* interrupted_;
};

// Whether the driver has read the structures that the caller described an allocation with. It may have refused the call
// before, and their pointers may be anything.
inline bool has_read_arguments(CUresult status) { return status == CUDA_SUCCESS || status == CUDA_ERROR_OUT_OF_MEMORY; }

constexpr bool is_described_by_structure(format::Kind kind) {
  return kind == format::Kind::kArray || kind == format::Kind::kMipmappedArray;
}

// Records the result of a row that makes something of this kind. `bytes()`: the requested size.
template <format::Kind kind, typename Bytes>
inline void note_result_of_making(Api api, CUresult status, Bytes bytes) {
  if constexpr (has_recorded_failures(kind)) {
    // The size of a pitched allocation is known only if it succeeded.
    constexpr bool kNever = kind == format::Kind::kPitched;
    const bool known = !kNever && (!is_described_by_structure(kind) || has_read_arguments(status));
    note_result(api, status, known ? bytes() : 0);
  } else {
    note_want_of_memory(api, status);
  }
}

// Records the result of a row with flags.
template <Api api>
inline void note_result_by_flags(CUresult status) {
  if constexpr (records_failure(api)) {
    note_result(api, status, 0);
  } else if constexpr (!records_own_failures(api)) {
    note_want_of_memory(api, status);
  }
}

// Records the resource that a row made. Events and streams have a fast path of their own, which may decline.
// `describe()`: the resource for the general path. `taken`: what the driver took for itself, if that was measured.
template <format::Kind kind, typename Describe>
__attribute__((always_inline)) inline void note_made_by_row(Api api, std::uint64_t handle, std::int64_t taken,
                                                            Describe describe) {
  if constexpr (has_short_lives(kind)) {
    if (CULPRIT_LIKELY(note_short_life<kind>(api, handle))) return;
  }
  const Made made = describe();
  if constexpr (kind == format::Kind::kMemoryPool)
    note_pool_device(reinterpret_cast<CUmemoryPool>(handle), made.where.device);
  note_made(made);
  if constexpr (kind == format::Kind::kGraphExec) note_executable_made(handle, taken);
}

using format::DriverMemory;

constexpr bool is_code(format::Kind kind) { return kind == format::Kind::kModule || kind == format::Kind::kLibrary; }

// The code that a row loads.
template <typename... Arguments>
CodeSource code_source(Arguments... arguments) {
  return {argument_of<const void*>(arguments...), argument_of<const char*>(arguments...)};
}

// The purpose of the memory that the driver takes when one of these is made.
constexpr DriverMemory memory_of(format::Kind kind) {
  switch (kind) {
    case format::Kind::kModule:
    case format::Kind::kLibrary:
      return DriverMemory::kModules;
    case format::Kind::kGraphExec:
      return DriverMemory::kGraphExecutables;
    case format::Kind::kStream:
      return DriverMemory::kStreams;
    default:
      return DriverMemory::kNone;
  }
}

constexpr DriverMemory memory_of_limit(CUlimit limit) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      return DriverMemory::kLocalMemory;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      return DriverMemory::kPrintfFifo;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      return DriverMemory::kDeviceHeap;
    default:
      return DriverMemory::kOtherLimits;
  }
}

// Calls the driver for a row that makes or ends something, and measures what it takes for itself. `taken`: not written
// for rows that are not measured.
template <DriverMemory what, typename Call>
__attribute__((always_inline)) inline CUresult call_metered(Api api, Call call, std::int64_t* taken) {
  if constexpr (what == DriverMemory::kNone) {
    return call();
  } else {
    if constexpr (what == DriverMemory::kStreams) {
      if (StreamSort* sort = sort_of_settled_stream(api); CULPRIT_LIKELY(sort != nullptr)) {
        const CUresult status = call();
        if (CULPRIT_LIKELY(status == CUDA_SUCCESS)) StreamUse::note_made(*sort, &thread_state.vacant_stream);
        return status;
      }
    }
    MeteredCall metered(api, what);
    const CUresult status = call();
    *taken = metered.finish(status == CUDA_SUCCESS);
    return status;
  }
}

// Calls the driver for a row that ends a resource, and records the end. The order of the two differs: an event's record
// is taken before the call, and given back when the driver refuses.
template <format::Kind kind, typename Call>
__attribute__((always_inline)) inline CUresult call_and_end(Api api, std::uint64_t handle, Call call) {
  if constexpr (has_short_lives(kind)) {
    const format::Ref ended = end_short_life<kind>(handle);
    if (CULPRIT_LIKELY(ended != 0)) {
      const CUresult status = call();
      if (CULPRIT_UNLIKELY(status != CUDA_SUCCESS)) take_back_short_life(api, kind, handle, ended, status);
      return status;
    }
  }
  Ending ending(api, kind, handle);
  // The driver keeps the memory of streams and executable graphs for the next ones.
  constexpr DriverMemory kReturned =
      memory_of(kind) == DriverMemory::kModules ? DriverMemory::kModules : DriverMemory::kNone;
  std::int64_t taken = 0;
  const CUresult status = call_metered<kReturned>(api, call, &taken);
  if constexpr (kReturned == DriverMemory::kModules) {
    if (status == CUDA_SUCCESS) note_code_unloaded(handle);
  }
  ending.finish(status);
  return status;
}

// Values for rows.
template <typename T>
inline std::uint64_t made(T* out) {
  return CULPRIT_UNLIKELY(out == nullptr) ? 0 : (std::uint64_t)*out;
}
template <typename T>
inline std::uint64_t handle(T value) {
  return (std::uint64_t)value;
}
inline Where here() { return {}; }
inline Where on_device(int device) { return {Where::By::kDevice, device, nullptr}; }
inline Where on_no_device() { return on_device(-1); }
inline Where on_stream(CUstream stream) { return {Where::By::kStream, PoolPlaces::kUnknown, stream}; }
// CUmemPoolProps, CUmemAllocationProp: memory may lie on the host, too.
template <typename Props>
inline Where place_of(const Props* props) {
  if (props == nullptr) return here();
  return props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? on_device(props->location.id) : on_no_device();
}
inline std::uint64_t external_bytes(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) {
  return description == nullptr ? 0 : description->size;
}
inline std::uint64_t external_bytes(const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description) {
  return description == nullptr ? 0 : description->size;
}

// Our hook for a row of the first driver; for a function of any driver.
void* hook_address(Api api);
void* hook_address(const HookedFunction& function);

namespace custom {
#define CULPRIT_UNPAREN(...) __VA_ARGS__
#define HOOK_CUSTOM(symbol, parameters, arguments, flags) \
  CUresult symbol(decltype(&::symbol) call, CULPRIT_UNPAREN parameters);
#include "interpose/driver/hooks.def"
#undef CULPRIT_UNPAREN
}  // namespace custom

}  // namespace culprit
