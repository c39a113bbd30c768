// The memory that the driver takes by itself, for contexts, code, local memory, graphs, streams: memory in use is read
// before and after the rare calls that make the driver grow, and the difference, less what was allocated meanwhile, is
// noted with the call's stack. Never around a call that programs make often (allocations, frees, copies, waits): a
// reading is a driver call. Of launches only the first one after code was loaded or looked up is measured, because
// lazily loaded code, local memory, the buffer of printf and the device heap get their memory then.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/base/spin_lock.h"
#include "interpose/driver/api.h"
#include "interpose/dump/contexts.h"
#include "interpose/format/dump_format.h"

namespace culprit {

struct Process;

class Meter {
 public:
  // A call that is being measured.
  struct Measurement {
    Api api;
    format::DriverMemory what;
    std::uint8_t device;
    bool begun;               // finish() is needed
    bool first;               // the process's first context on the device: memory in use before it is not known
    std::size_t stack_limit;  // of a launch: before it
  };

  // All functions are thread-safe and run on the tracker's own stack only. `always`: also when many calls were measured
  // shortly before.
  void begin(Process& process, Measurement* measurement, bool always = false);
  // Returns the memory that the call took; 0 also if that is not known.
  std::int64_t finish(Process& process, const Measurement& measurement);
  void finish_launch(Process& process, const Measurement& measurement);

  // A call that makes a context on `measurement->device`; `made`: the new context.
  void begin_context(Process& process, Measurement* measurement);
  void finish_context(Process& process, const Measurement& measurement, CUcontext made);

  // A context of this number ended, with its memory.
  void note_context_ended(Process& process, std::uint32_t context);

  // Writes the device's balance at this moment. Reads the driver's figures if a context of the device is current to the
  // calling thread and no stream is being captured; else there is none. (cuMemGetInfo alone is permitted during a
  // capture of any mode: driver 580 on an H200.)
  void take_balance(Process& process, std::uint8_t device, format::Moment moment);

 private:
  static constexpr std::uint32_t kMoments = 3;

  // Measured calls of several threads at the same time: which of them took what is not known, their sum is.
  struct Together {
    SpinLock lock;
    std::uint32_t open;     // calls that are under way
    std::uint32_t calls;    // since it was 0
    std::uint32_t changes;  // of `open`
    format::DriverMemory what;
    bool mixed;  // calls of different sorts
    std::uint64_t began_ns;
    std::uint64_t used;  // by all processes, when the first of them began ...
    std::uint64_t live;  // ... and DeviceRecord::live_bytes
  };

  bool may_measure(std::uint64_t now) const;
  bool read(Process& process, std::uint8_t device, CUcontext context, std::uint64_t* used, std::uint64_t* live);
  void open(Process& process, Measurement* measurement, CUcontext context);
  bool close(Process& process, const Measurement& measurement, CUcontext context, std::int64_t* grown,
             std::uint64_t* used);
  void note(Process& process, const Measurement& measurement, std::uint32_t context, std::int64_t bytes);
  void add(std::uint8_t device, format::DriverMemory what, std::int64_t bytes);

  std::atomic<std::uint64_t> spent_ns_;  // on all readings so far
  Together together_[ContextTable::kMostDevices];
  std::int64_t taken_[ContextTable::kMostDevices][format::kDriverMemoryKinds];
  std::uint64_t unmeasured_[ContextTable::kMostDevices];
  std::uint64_t in_common_[ContextTable::kMostDevices];  // calls that ran at the same time as others
  SpinLock balance_lock_;
  format::Ref balances_[ContextTable::kMostDevices];  // kMoments records
};

// Set by calls that load or look up code.
extern CULPRIT_OWN std::atomic<bool> launch_is_measured;

__attribute__((always_inline)) inline bool next_launch_is_measured() {
  return CULPRIT_UNLIKELY(launch_is_measured.load(std::memory_order_relaxed));
}

// Measures a launch: local memory apart from all else.
class MeteredLaunch {
 public:
  explicit MeteredLaunch(Api api);
  void finish();

 private:
  Meter::Measurement measurement_ = {};
};

// Measures one call of a hook.
class MeteredCall {
 public:
  // Construct before the driver is called. kNone: does nothing.
  MeteredCall(Api api, format::DriverMemory what);
  // Returns the memory that the call took; 0 also if that is not known.
  std::int64_t finish();

 private:
  Meter::Measurement measurement_ = {};
};

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
