// The whole state of recording in this process, in one mapping.
//
// Its first page is wiped by the kernel in a fork child (MADV_WIPEONFORK): a child finds `phase` zero and starts a dump
// of its own at its first event. The other pages are copied, and the dump stays mapped: a signal handler that forks may
// have interrupted the tracker, whose code then runs to its end in the child too, and stores the same values there. The
// child drops the copy when it begins its own dump.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/clock.h"
#include "interpose/base/own_stack.h"
#include "interpose/base/placement.h"
#include "interpose/cpython/python_frames.h"
#include "interpose/dump/dump_tables.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/recorder/device_use.h"
#include "interpose/recorder/gpu_questions.h"
#include "interpose/recorder/hook_entry.h"
#include "interpose/recorder/log.h"
#include "interpose/recorder/marks.h"
#include "interpose/recorder/meter.h"
#include "interpose/recorder/options.h"
#include "interpose/recorder/pictures.h"
#include "interpose/recorder/pool_places.h"
#include "interpose/recorder/recording_switch.h"
#include "interpose/recorder/stack_collection.h"
#include "interpose/recorder/thread_memory.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/recorder/view_requests.h"
#include "interpose/stacks/stack_memo.h"
#include "interpose/stacks/stack_tables.h"

namespace culprit {

enum class Phase : std::uint32_t {
  kNone = 0,
  kStarting = 1,
  kRecording = 2,
  kFailed = 3,    // no dump could be made: hooks only forward
  kDetached = 4,  // attached and not recording yet, or detached again: hooks only forward
};

// Process::mode: flags of unusual states, in one word so that the hot path tests all of them with one load.
enum Mode : std::uint32_t {
  kModeExiting = 1,  // exit handlers are running
  kModeOff = 2,
  kModeJustOn = 4,          // switched on, no allocation since
  kModeVerify = 8,          // CULPRIT_VERIFY_STACKS
  kModeNoStacks = 16,       // CULPRIT_DEPTH=0
  kModePython = 32,         // there is an interpreter whose frames can be read
  kModeUserThreads = 64,    // user threads are switched inside hooks: the outermost hook may be another one's
  kModeSeveralLives = 128,  // a driver was opened again, or a second one (driver/loaded_drivers.h)
  // The modes in which a new allocation needs note_mode().
  kModesOfNoting = kModeExiting | kModeOff | kModeJustOn | kModeSeveralLives,
  // The modes in which a stack is looked up in the slow way.
  kModesOfStacks = kModeVerify | kModeNoStacks | kModeUserThreads,
};

// The part of Process that belongs to hooks/. It is defined here, because the recorder reads it too.
struct HookPart {
  std::atomic<std::uint32_t> stream_epoch;  // changes whenever a stream is created or destroyed
  std::atomic<int> captures;                // streams being captured
  SpinLock references_lock;  // guards reference counts and mappings of VMM and IPC memory and user objects
};

// Each folder's part is a struct that the folder defines.
struct Process {
  static constexpr std::uint64_t kWipedBytes = 4096;

  // Fields that every call reads and that rarely change, in three cache lines; the first line is in the wiped page.
  std::atomic<Phase> phase;
  std::atomic<std::uint32_t> mode;
  std::atomic<std::uint32_t> session;  // `generation` while something is recorded, else 0: see ThreadState
  std::uint32_t generation;
  int pid;
  Clock clock;
  // Set while the fields below are in use. If it is already set when recording starts, they are a copy of a fork
  // parent's.
  alignas(kWipedBytes) bool in_use;
  alignas(64) DumpWriter dump;
  alignas(64) HookPart hooks;
  DumpTables tables;
  StackTables stacks;
  PythonFrames python;
  Options options;
  SpareThreadData spares;
  StackHolders holders;
  StackCollection collection;
  MarkTable marks;
  Pictures pictures;
  Meter meter;
  GpuQuestions gpu_questions;
  DeviceUse device_use;
  PoolPlaces pool_places;
  SwitchPart switching;
  ViewPart view;
  std::atomic<std::uint64_t> last_reading_ns;  // of a device's memory
  // DeviceRecord::live_bytes when free memory was last read at a peak.
  std::atomic<std::uint64_t> live_at_reading[ContextTable::kMostDevices];
  std::atomic<int> summary_done;
};

// The running process, with recording started; nullptr when it could not be started. Starts it on the first call after
// load or after a fork.
Process* recording_process();

// Like recording_process(), but never starts recording: nullptr when it is off.
Process* process_if_recording();

// Whether recording was wanted in this process and could not be started (no dump could be made).
bool recording_failed();

// For a process that exits without any hook call: begins a dump that says so, without calling the driver. nullptr when
// recording is off or no dump can be created.
Process* begin_without_calls();

// For attach.cpp. Creates a dump; the caller follows with begin_recording(). Returns nullptr on failure; `error` is
// then an errno.
Process* prepare_recording(int* error);

// Hooks record from now on.
void begin_recording(Process& process);

// Sets Phase::kDetached, and marks the dump as detached. Once wait_for_threads() has returned true, no hook writes to
// the dump any more.
void end_recording(Process& process);

// Frees all mappings of recording, so that it can begin again. Only when no thread is in the tracker.
void release_recording();

// now_ns(): exact, for rare records, and for times that event times are compared with. event_ns(): cheaper, for each
// allocation (see Clock).
inline std::uint64_t now_ns(Process& process) { return process.clock.now(); }
inline std::uint64_t event_ns(Process& process) { return process.clock.event(&thread_state.times); }

// The Process, for the hot path; its phase says whether recording is on. nullptr before recording first starts, and on
// kernels that cannot wipe it in a fork child.
extern CULPRIT_OWN Process* quick_process;

// quick_process if it is recording and the calling thread is fully registered, else nullptr. The hot path's test.
__attribute__((always_inline)) inline Process* process_at_hand() {
  Process* process = __atomic_load_n(&quick_process, __ATOMIC_ACQUIRE);
  if (CULPRIT_UNLIKELY(process == nullptr)) return nullptr;
  if (CULPRIT_UNLIKELY(process->session.load(std::memory_order_acquire) != thread_state.session)) return nullptr;
  return process;
}

// Counts a call that is not recorded: by a signal handler that interrupted the tracker, by a thread past its end, or
// while another thread takes too long to start recording. Thread-safe and async-signal-safe.
CULPRIT_COLD void count_lost_call();

// A section of the tracker's own work. `process()` is nullptr when nothing is to be recorded: recording is off, or this
// is a signal handler that interrupted another section. Keeps errno.
//
// kQuick is for code that only loads and stores, which changes no errno and fills no dump: `process()` is also nullptr
// where kFull would have to do more than test two words; otherwise this thread has `memory`, `paths` and `counters`.
class Recording {
 public:
  enum class Kind : std::uint8_t { kFull, kQuick };
  __attribute__((always_inline)) explicit Recording(Kind kind = Kind::kFull)
      : process_(nullptr), saved_errno_(0), kind_(kind) {
    if (CULPRIT_UNLIKELY(thread_state.in_tracker)) {
      if (kind == Kind::kFull) count_lost_call();
      return;
    }
    Process* process = process_at_hand();
    if (CULPRIT_LIKELY(process != nullptr)) {
      if (kind == Kind::kFull) saved_errno_ = *thread_state.error_number;
      thread_state.in_tracker = true;
      process_ = process;
    } else if (kind == Kind::kFull) {
      // The address of this object is not passed: it then stays in registers, which halves its cost.
      int saved = 0;
      bool first = false;
      process_ = begin(&saved, &first);
      saved_errno_ = saved;
      first_of_thread_ = first;
    }
  }
  __attribute__((always_inline)) ~Recording() {
    if (CULPRIT_UNLIKELY(process_ == nullptr)) return;
    thread_state.in_tracker = false;
    if (kind_ == Kind::kQuick) return;
    if (CULPRIT_UNLIKELY(process_->dump.has_news())) warn_if_stopped(*process_);
    *thread_state.error_number = saved_errno_;
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  Process* process() const { return process_; }
  // Whether the thread just registered with this process: any records that it knows from before belong to a fork
  // parent.
  bool is_first_of_thread() const { return first_of_thread_; }

 private:
  CULPRIT_COLD static Process* begin(int* saved_errno, bool* first_of_thread);

  Process* process_;
  int saved_errno_;
  Kind kind_;
  bool first_of_thread_ = false;
};

// Calls work(process) inside a Recording, on the tracker's own stack: for rare work.
template <typename Work>
void record_on_own_stack(Work work) {
  on_own_stack([&] {
    Recording recording;
    if (Process* process = recording.process()) work(*process);
  });
}

// After a jump out of the outermost hook: repairs the calling thread's state and the shard that it may have locked, and
// counts the hook as left. On the tracker's own stack only.
void repair_left_hook();

// The calling thread's own records, nullptr = it has none.
inline ThreadRecords* own_records() {
  return CULPRIT_UNLIKELY(thread_state.memory == nullptr) ? nullptr : &thread_state.memory->records;
}

// Asks the driver for the current context, and caches its place.
CULPRIT_COLD Place ask_current_place(Process& process);

// With CULPRIT_VERIFY_STACKS=1: compares the cached place with the driver's answer, and counts mismatches.
CULPRIT_COLD void verify_place(Process& process, Place remembered);

// Whether a stream is being captured. A capture permits few calls of the driver.
inline bool has_captures(const Process& process) { return process.hooks.captures.load(std::memory_order_relaxed) != 0; }

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
