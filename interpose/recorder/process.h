// Everything that recording knows about this process, in one mapping.
//
// Its first page is wiped by the kernel in a fork child (MADV_WIPEONFORK): a child finds `phase` zero and starts a dump
// of its own at its first event. The rest is copied, and the dump stays mapped: a signal handler may have forked after
// it had interrupted this very code, which then comes to its end in the child as well as in the parent, and stores the
// same there. The child gives the copy up when it begins its own dump.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/clock.h"
#include "interpose/base/own_stack.h"
#include "interpose/base/placement.h"
#include "interpose/cpython/python_frames.h"
#include "interpose/dump/contexts.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/dump/event_tables.h"
#include "interpose/dump/live_table.h"
#include "interpose/dump/thread_counters.h"
#include "interpose/dump/throw_table.h"
#include "interpose/dump/time_line.h"
#include "interpose/owners/error_returns.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/recorder/hook_entry.h"
#include "interpose/recorder/log.h"
#include "interpose/recorder/marks.h"
#include "interpose/recorder/options.h"
#include "interpose/recorder/pictures.h"
#include "interpose/recorder/recording_switch.h"
#include "interpose/recorder/stack_collection.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/site_table.h"
#include "interpose/stacks/stack_memo.h"
#include "interpose/stacks/stack_table.h"

namespace culprit {

enum class Phase : std::uint32_t {
  kNone = 0,
  kStarting = 1,
  kRecording = 2,
  kFailed = 3,    // no dump could be made: hooks only forward
  kDetached = 4,  // attached and not recording yet, or detached again: hooks only forward
};

// Process::mode: what is not as usual. One word, because what is usual is asked for on every call.
enum Mode : std::uint32_t {
  kModeExiting = 1,  // exit handlers are running
  kModeOff = 2,
  kModeJustOn = 4,  // switched on, and nothing was made since
  // What is made is looked at before it is noted, see note_mode().
  kModesOfNoting = kModeExiting | kModeOff | kModeJustOn,
  kModeVerify = 8,     // CULPRIT_VERIFY_STACKS
  kModeNoStacks = 16,  // CULPRIT_DEPTH=0
  kModePython = 32,    // an interpreter whose frames can be read is there
};

// What a thread has for itself, in one mapping.
struct ThreadMemory {
  ThreadRecords records;
  StackMemo stacks;
  PendingFailures failures;
  PythonMemo python;
  NestingMemo nestings;
  alignas(16) unsigned char judged[2560];            // exceptions.cpp
  alignas(64) unsigned char unwind_cache[48 << 10];  // libunwind's, see unwind_services.cpp
  StackHolder holder;
};

struct Process {
  static constexpr std::uint64_t kWipedBytes = 4096;

  // What every call reads, and hardly any writes, in three cache lines; the first of them in the page that is wiped.
  std::atomic<Phase> phase;
  std::atomic<std::uint32_t> mode;
  std::atomic<std::uint32_t> session;  // `generation` while something is recorded, else 0: see ThreadState
  std::uint32_t generation;
  int pid;
  Clock clock;
  // Set while the rest is in use. Set already when a recording starts: the rest is a copy of a fork parent's.
  alignas(kWipedBytes) bool in_use;
  alignas(64) DumpWriter dump;
  alignas(64) std::atomic<std::uint32_t> stream_epoch;  // moves whenever a stream comes or goes
  std::atomic<int> captures;                            // streams being captured
  std::atomic<int> graph_memory;                        // graph memory records
  std::atomic<int> unlaunched_memory;                   // of those, the ones that no launch has made real
  ContextTable contexts;

  LiveTable live;
  Options options;
  ModuleTable modules;
  StackTable stacks;
  StackHolders holders;
  StackCollection collection;
  PythonFrames python;
  ErrorTable errors;
  FailedCallTable failed_calls;
  EvidenceTable evidence;
  ThrowTable throws;
  SiteTable sites;
  CancelTable cancels;
  ReleaseTable releases;
  MarkTable marks;
  ThreadTable threads;
  TimeLines time_lines;
  CounterBlocks counters;
  Pictures pictures;
  std::atomic<std::uint32_t> module_generation;  // up to which unloaded modules were taken note of
  SpinLock references_lock;  // guards reference counts and mappings of VMM and IPC memory and user objects
  std::atomic<std::uint64_t> last_reading_ns;
  std::atomic<std::uint64_t> switched_on_ns;
  std::atomic<std::uint32_t> spans;  // how many were begun
  std::atomic<format::Ref> span;     // SpanRecord of the stretch that is being recorded; 0 = none was written
  std::atomic<int> summary_done;
};

// The running process, with recording started; nullptr when it could not be started. Starts it on the first call after
// load or after a fork.
Process* recording_process();

// The same without starting anything: nullptr when nothing is being recorded.
Process* process_if_recording();

// For a process that ends, and in which no hook was called: begins a dump that says so, without a call of the driver.
// nullptr when recording is off or there can be no dump.
Process* begin_without_calls();

// For attach.cpp. Makes a dump, and leaves it to the caller to follow with begin_recording(). nullptr when that is not
// possible; `error` is then an errno.
Process* prepare_recording(int* error);

// Hooks record from now on.
void begin_recording(Process& process);

// Sets Phase::kDetached, and marks the dump so. No hook writes to it any more once wait_for_threads() has returned
// true.
void end_recording(Process& process);

// Gives back what recording has mapped, so that it can begin anew. Only when no thread is in the tracker.
void release_recording();

// The time of what is rare, and of what events are compared with; of an event, cheaply (see Clock).
inline std::uint64_t now_ns(Process& process) { return process.clock.now(); }
inline std::uint64_t event_ns(Process& process) { return process.clock.event(&thread_state.times); }

// The process whose phase says whether something is recorded, for the way that is taken on every call; nullptr as long
// as nothing was, and where the kernel can not wipe it in a fork child.
extern CULPRIT_OWN Process* quick_process;

// The same where the calling thread has all that recording takes, else nullptr: what every call asks.
__attribute__((always_inline)) inline Process* process_at_hand() {
  Process* process = __atomic_load_n(&quick_process, __ATOMIC_ACQUIRE);
  if (CULPRIT_UNLIKELY(process == nullptr)) return nullptr;
  if (CULPRIT_UNLIKELY(process->session.load(std::memory_order_acquire) != thread_state.session)) return nullptr;
  return process;
}

// Counts a call that is not recorded: of a signal handler that interrupted the tracker, of a thread that is past its
// end, or while another thread takes too long to start the recording. Thread-safe and async-signal-safe.
CULPRIT_COLD void count_lost_call();

// Marks one stretch of our own bookkeeping. `process()` is nullptr when nothing is to be recorded: recording is off, or
// this is a signal handler that interrupted another such stretch. Keeps errno as the user's thread had it.
class Recording {
 public:
  __attribute__((always_inline)) Recording() : process_(nullptr), saved_errno_(0) {
    if (CULPRIT_UNLIKELY(thread_state.in_tracker)) return;
    Process* process = process_at_hand();
    if (CULPRIT_LIKELY(process != nullptr)) {
      saved_errno_ = *thread_state.error_number;
      thread_state.in_tracker = true;
      process_ = process;
    } else {
      // Not this object's address: in registers it costs half of what it does in memory.
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
    if (CULPRIT_UNLIKELY(process_->dump.has_news())) warn_if_stopped(*process_);
    *thread_state.error_number = saved_errno_;
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  Process* process() const { return process_; }
  // Whether the thread came to this process only now: what it found out about records before was in a fork parent.
  bool is_first_of_thread() const { return first_of_thread_; }

 private:
  CULPRIT_COLD static Process* begin(int* saved_errno, bool* first_of_thread);

  Process* process_;
  int saved_errno_;
  bool first_of_thread_ = false;
};

// Calls work(process) as a Recording, on the tracker's own stack: for whatever is not done on every call.
template <typename Work>
void record_on_own_stack(Work work) {
  on_own_stack([&] {
    Recording recording;
    if (Process* process = recording.process()) work(*process);
  });
}

// The calling thread was thrown out of its outermost hook: brings its state, and the lock that it may hold, in order,
// and counts it. On the tracker's own stack only.
void repair_left_hook();

// Adds to what is known of why `record` is not freed: `change(fields)` sets what is new. Two threads that do so at the
// same time may lose one of the two.
template <typename Change>
void add_evidence(Process& process, format::AllocationRecord* record, Change change) {
  format::EvidenceRecord fields = {};
  format::Ref known = __atomic_load_n(&record->evidence, __ATOMIC_RELAXED);
  if (known != 0) fields = *process.dump.at<format::EvidenceRecord>(known);
  change(fields);
  format::Ref ref = process.evidence.intern(fields, process.dump);
  if (ref != 0) __atomic_store_n(&record->evidence, ref, __ATOMIC_RELAXED);
}

// Counts the times that a module may have been unloaded.
extern CULPRIT_OWN std::atomic<std::uint32_t> module_generation;

// A module may have been unloaded: addresses remembered so far may mean something else now.
inline void note_module_unloaded() { module_generation.fetch_add(1, std::memory_order_release); }

// Makes the dump of a process that has none; `called`: a hook was. Returns 0, or the errno for which there is none. On
// the tracker's own stack only, in one thread.
int start_recording(Process& process, bool called);

// The path of a stack that this thread just walked, 0 if it could not be stored. Here and in the next two: on the
// tracker's own stack only.
// Goes on with a collection of stacks, if there is one to be made. Where the calling thread is about to store a new
// stack, and holds none but what its StackHolder says.
void collect_stacks(Process& process);

// The calling thread holds these stacks (0 = none) in no place that a collection knows, also when this Recording is
// over: keeps them until the next call. Call it in the Recording in which it got them.
void keep_stacks(format::Ref first, format::Ref second);

// The path of a stack that this thread just walked, 0 if it could not be stored.
std::uint32_t intern_path(const RawStack& stack, const StackChecks& checks);

// The path of the calling thread's stack as far as it can be walked, beyond CULPRIT_DEPTH. 0 if it could not be stored.
std::uint32_t walk_path(const std::uint64_t* frame);

// The stack of a path's frames from `node` outward. `innermost`: what stands for the address of the first one, 0 =
// that.
format::Ref intern_outward(Process& process, const ThreadPaths& paths, std::uint32_t node, std::uint64_t innermost);

// current_stack() when the stack is not known from the last time.
CULPRIT_COLD format::Ref find_current_stack(Process& process);

// `native` with the calling thread's Python frames.
inline format::Ref with_python_frames(Process& process, format::Ref native) {
  if (CULPRIT_LIKELY((process.mode.load(std::memory_order_acquire) & kModePython) == 0)) return native;
  return process.python.merged(process, native);
}

// The calling thread's stack as a number in the dump, 0 if it could not be stored.
CULPRIT_HOT inline format::Ref current_stack(Process& process) {
  std::uint32_t generation = module_generation.load(std::memory_order_acquire);
  // The saved rbp and the return address of the hook that the user's thread called.
  const auto* frame = reinterpret_cast<const std::uint64_t*>(thread_state.outermost_hook);
  const std::uint32_t slow = process.mode.load(std::memory_order_relaxed) & (kModeVerify | kModeNoStacks);
  if (CULPRIT_LIKELY(slow == 0) && CULPRIT_LIKELY(frame != nullptr) && CULPRIT_LIKELY(thread_state.memory != nullptr)) {
    format::Ref ref = thread_state.memory->stacks.look_up(frame, generation, &thread_state.path);
    if (CULPRIT_LIKELY(ref != 0)) {
      if (CULPRIT_LIKELY(thread_state.paths != nullptr)) thread_state.paths->see(thread_state.path);
      return with_python_frames(process, ref);
    }
  }
  return find_current_stack(process);
}

// The calling thread's own records, nullptr = it has none.
inline ThreadRecords* own_records() {
  return CULPRIT_UNLIKELY(thread_state.memory == nullptr) ? nullptr : &thread_state.memory->records;
}

// Asks the driver which context is current, and remembers its place.
CULPRIT_COLD Place ask_current_place(Process& process);

// With CULPRIT_VERIFY_STACKS=1: compares what is remembered with what the driver says, and counts.
CULPRIT_COLD void verify_place(Process& process, Place remembered);

// The place of the context that is current to the calling thread. Asking the driver costs as much as all the rest of
// recording an event, so it is asked once.
inline Place current_place(Process& process) {
  if (CULPRIT_UNLIKELY(thread_state.context_epoch != process.contexts.epoch())) return ask_current_place(process);
  Place place = thread_state.context_place;
  if (CULPRIT_UNLIKELY((process.mode.load(std::memory_order_relaxed) & kModeVerify) != 0)) verify_place(process, place);
  return place;
}

}  // namespace culprit
