// The calls that the meter measures: construct before the driver is called, finish() when it has answered. Each does
// nothing when recording is off.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/device_code/loaded_code.h"
#include "interpose/metering/meter.h"

namespace culprit {

// Measures one call of a hook.
class MeteredCall {
 public:
  // Construct before the driver is called. kNone: does nothing.
  MeteredCall(Api api, format::DriverMemory what);
  // Returns the memory that the call took and that is no local memory; 0 also if that is not known. `succeeded`: the
  // call did.
  std::int64_t finish(bool succeeded);

 private:
  Meter::Measurement measurement_ = {};
};

// The sort of the stream that this call is about to make, if it takes the place of the thread's last one, and a reading
// would teach nothing: all that a loop which makes and destroys a stream costs here. A MeteredCall is not needed then;
// StreamUse::note_made() is, when the call succeeded. nullptr: not known.
StreamSort* sort_of_settled_stream(Api api);

// Measures a look-up of code that was not made before.
class MeteredLookUp {
 public:
  // `key`: of look_up_key().
  MeteredLookUp(Api api, std::uint64_t key, CUlibrary library);
  // `kernel`: the handle of code that the call returned; nullptr: none.
  void finish(CUresult status, const void* kernel);

 private:
  Meter::Measurement measurement_ = {};
  std::uint64_t key_ = 0;  // in its context; 0: the call was made before
};

// Measures the first launch of a kernel or of an executable graph.
class MeteredLaunch {
 public:
  MeteredLaunch(Api api, const void* kernel);
  MeteredLaunch(Api api, CUgraphExec exec);
  // Returns the memory that the call took and that is no local memory; 0 also if that is not known. Call before the
  // memory that a graph allocates is recorded.
  std::int64_t finish(CUresult status);
  // Whether no such launch was known.
  bool is_new() const { return key_ != 0; }

 private:
  void begin(Process& process, Api api, format::DriverMemory what, std::uint64_t key, CUcontext context);

  Meter::Measurement measurement_ = {};
  std::uint64_t key_ = 0;
};

// A kernel was launched on the default stream of its thread.
CULPRIT_COLD void note_default_stream_of_thread();

// A new executable has this handle, or it was updated: the next launch is measured.
void forget_graph_launch(CUgraphExec exec);

// A module or a library was loaded. Reads an image that may be gone later at once.
void note_code_loaded(std::uint64_t handle, const CodeSource& source);
// It ended: its handles may come back for other code.
void note_code_unloaded(std::uint64_t handle);

// A call that makes a context.
class MeteredContext {
 public:
  // `primary`: of a primary context; one that is in use already takes nothing.
  MeteredContext(Api api, CUdevice device, bool primary);
  void finish(CUcontext made);

 private:
  Meter::Measurement measurement_ = {};
};

}  // namespace culprit
