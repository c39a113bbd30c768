// The memory that the driver takes by itself, for contexts, code, local memory, graphs, streams: memory in use is read
// before and after the rare calls that make the driver grow, and the difference, less what was allocated meanwhile, is
// noted with the call's stack. Never around a call that programs make often (allocations, frees, copies, waits): a
// reading is a driver call. Of look-ups of code and of launches only the first one of each kernel is measured, because
// lazily loaded code, local memory, the buffer of printf and the device heap get their memory then.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/dump/contexts.h"
#include "interpose/format/dump_format.h"
#include "interpose/metering/gpu_questions.h"
#include "interpose/metering/look_ups.h"
#include "interpose/metering/own_figures.h"
#include "interpose/metering/stream_use.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

struct Process;

class Meter {
 public:
  // Readings have a share of the time, and these sorts of calls a part of it each: a program that looks up thousands of
  // kernels would leave nothing for the graphs that it makes of them.
  enum class Budget : std::uint8_t { kCalls, kLookUps, kLaunches };
  static constexpr int kBudgets = 3;

  // A call that is being measured.
  struct Measurement {
    Api api;
    format::DriverMemory what;
    std::uint8_t device;
    Budget budget;
    bool begun;                // finish() is needed
    bool first;                // the process's first context on the device: memory in use before it is not known
    std::size_t stack_limit;   // of a call that gets kernels ready: before it
    StreamUse::Sort* streams;  // of a call that makes a stream, where the stream is counted
    StreamUse::Expected expected;
  };

  // All functions are thread-safe and run on the tracker's own stack only.
  void begin(Process& process, Measurement* measurement);
  // Returns the memory that the call took and that is no local memory; 0 also if that is not known.
  std::int64_t finish(Process& process, const Measurement& measurement);

  // Before a call that makes a stream: false when what it takes is known, or there is no time to check that. Else
  // begin() follows. On any stack.
  bool needs_reading(Process& process, Measurement* measurement);
  // After it, measured or not, unless is_known_to_take_nothing(); `made`: it succeeded. On the tracker's own stack.
  void finish_stream(Process& process, const Measurement& measurement, bool made);
  static bool is_known_to_take_nothing(const Measurement& measurement) {
    return !measurement.begun && measurement.expected.bytes == 0;
  }
  // A stream that this context's call `api` made has ended.
  void note_stream_ended(std::uint32_t context, Api api) {
    streams_.note_ended(context, api, &thread_state.vacant_stream);
  }
  // After that: the driver refused.
  void note_stream_stays(std::uint32_t context, Api api) {
    streams_.note_stays(context, api, &thread_state.vacant_stream);
  }

  // A call that makes a context on `measurement->device`; `made`: the new context.
  void begin_context(Process& process, Measurement* measurement);
  void finish_context(Process& process, const Measurement& measurement, CUcontext made);

  LookUps& look_ups() { return look_ups_; }
  GpuQuestions& gpu_questions() { return gpu_questions_; }

  // The program made a pool, or got one of another process.
  void note_pool() { other_pools_.store(true, std::memory_order_relaxed); }
  // A context of this number ended, with its memory.
  void note_context_ended(Process& process, std::uint32_t context);

  // Writes the device's balance at this moment. Reads the driver's figures if a context of the device is current to the
  // calling thread and no stream is being captured; else there is none. (cuMemGetInfo alone is permitted during a
  // capture of any mode: driver 580 on an H200.)
  void take_balance(Process& process, std::uint8_t device, format::Moment moment);

 private:
  using BalanceRecord = format::BalanceRecord;
  static constexpr std::uint32_t kMoments = 3;

  // Memory in use by all processes and by this one, and the memory that its records show.
  struct Reading {
    std::uint64_t used;
    std::uint64_t own;
    std::uint64_t live;
    std::uint64_t mark;  // OwnFigures
    bool own_known;
  };
  // How much a call took.
  struct Growth {
    std::int64_t bytes;
    bool known;
    bool proven;  // by figures of this process alone, or OwnFigures has it among the calls without one
  };

  // Measured calls of several threads at the same time: which of them took what is not known, their sum is.
  struct Together {
    SpinLock lock;
    std::uint32_t open;     // calls that are under way
    std::uint32_t calls;    // since it was 0
    std::uint32_t changes;  // of `open`
    std::uint16_t kinds;    // of the calls: a bit for each DriverMemory
    std::uint64_t began_ns;
    Reading before;  // when the first of them began
    OwnFigures figures;
    CUcontext unsettled_context;  // the first one, while it is among the calls without a figure ...
    std::int64_t context_bytes;   // ... and what it was given
  };
  enum class At : std::uint8_t { kBegin, kEnd, kFirstContext, kProcessEnd };  // begin and end of a call
  struct OtherThreads;

  // `repeated`: it teaches nothing new, and the time that the first readings have is not for it.
  bool may_measure(Budget budget, std::uint64_t now, bool repeated) const;
  bool read(Process& process, const Measurement& measurement, CUcontext context, At at, Reading* reading);
  void ask(Process& process, std::uint8_t device, GpuQuestions::For whom, std::uint64_t state,
           format::GpuAccount* account);
  static OtherThreads look_at_other_threads(std::uint8_t device);
  std::uint64_t mark(Process& process, const OtherThreads& others, std::uint8_t device);
  bool wants_figure(std::uint8_t device, At at, const Reading& reading, std::uint64_t* state);
  static OwnFigures::Figure figure_of(const Reading& reading);
  void note_settled(Process& process, std::uint8_t device, const OwnFigures::Settled& settled);
  void note_unmeasured(std::uint8_t device, format::DriverMemory what);
  void settle(Process& process, std::uint8_t device, At at);
  Growth between(Process& process, const Measurement& measurement, const Reading& after);
  void take_share(Process& process, BalanceRecord* balance);
  void open(Process& process, Measurement* measurement, CUcontext context);
  Growth close(Process& process, const Measurement& measurement, CUcontext context);
  void note(Process& process, const Measurement& measurement, std::uint32_t context, const Growth& growth);
  void add(std::uint8_t device, format::DriverMemory what, const Growth& growth);

  std::atomic<std::uint64_t> spent_ns_[kBudgets];  // on readings so far
  std::atomic<bool> other_pools_;
  std::atomic<std::uint64_t> marks_;  // where each figure has another mark
  GpuQuestions gpu_questions_;
  LookUps look_ups_;
  StreamUse streams_;
  Together together_[ContextTable::kMostDevices];
  std::int64_t charged_[ContextTable::kMostDevices];  // for streams that were not measured
  std::int64_t taken_[ContextTable::kMostDevices][format::kDriverMemoryKinds];
  std::uint64_t unmeasured_[ContextTable::kMostDevices];
  std::uint64_t in_common_[ContextTable::kMostDevices];  // calls that ran at the same time as others
  std::uint64_t not_attributed_[ContextTable::kMostDevices];
  std::uint32_t seen_others_[ContextTable::kMostDevices];  // answers that named other processes
  bool shared_[ContextTable::kMostDevices];                // the last answer did
  std::uint16_t unproven_[ContextTable::kMostDevices];     // a bit for each DriverMemory
  SpinLock balance_lock_;
  format::Ref balances_[ContextTable::kMostDevices];  // kMoments records
  format::Ref shares_[ContextTable::kMostDevices];    // likewise
};

}  // namespace culprit
