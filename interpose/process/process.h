// The state of recording in this process, in one mapping.
//
// Its first page is wiped by the kernel in a fork child (MADV_WIPEONFORK): a child finds `phase` zero and starts a dump
// of its own at its first event. The other pages are copied, and the dump stays mapped: a signal handler that forks may
// have interrupted the tracker, whose code then runs to its end in the child too, and stores the same values there. The
// child drops the copy when it begins its own dump.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/dump/dump_tables.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/process/options.h"
#include "interpose/process/stack_holders.h"
#include "interpose/process/thread_memory.h"
#include "interpose/process/thread_state.h"
#include "interpose/python_stacks/python_frames.h"
#include "interpose/stacks/stack_tables.h"
#include "interpose/system/clock.h"

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
  std::atomic<std::uint32_t> stream_epoch;  // changes whenever a stream is destroyed
  std::atomic<int> captures;                // streams being captured
  SpinLock references_lock;  // guards reference counts and mappings of VMM and IPC memory and user objects
};

// Each folder's part is a struct that the folder defines. Rooms above this one extend the struct: each has one that
// derives from that of the room below it, with its own parts as further members. All of them are one object, in the one
// mapping that is made with the first of them, so a room reaches its parts by a static_cast, and a part needs nothing
// more than to be empty when all its bytes are zero. The last of the line gives RoomsAbove::state_bytes.
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
  std::atomic<int> summary_done;
};

// The running process, with recording started; nullptr when it could not be started. Starts it on the first call after
// load or after a fork.
Process* recording_process();

// The mapping, whether anything is recorded or not; nullptr: there is no memory. Made once, for all fork descendants.
Process* mapped_process();

// Like recording_process(), but never starts recording: nullptr when it is off.
Process* process_if_recording();

// The process whose state is mapped, whatever its phase is; nullptr: none was made. Never makes one.
Process* known_process();

// A quick check whether a call may be recorded, without a switch of stacks.
bool may_record();

// There is no memory for the tracker's first structures: warns, and records nothing in this process. Does nothing once
// there is a Process.
void give_up_without_memory();

// Whether recording was wanted in this process and could not be started (no dump could be made).
bool recording_failed();

// For a process that exits without any hook call: begins a dump that says so, without calling the driver. nullptr when
// recording is off or no dump can be created.
Process* begin_without_calls();

// The state of a new dump is complete: hooks record from now on.
void begin_recording(Process& process);

// In a fork child, before it begins its own dump: drops the copy of the parent's state behind the wiped page. Some of
// it may have been copied while another thread changed it, so it is not read; what it mapped stays mapped.
void drop_copy(Process& process);

// Clears the state for the next recording. Only when no thread is in the tracker.
void clear_process(Process& process);

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

// Whether a stream is being captured. A capture permits few calls of the driver.
inline bool has_captures(const Process& process) { return process.hooks.captures.load(std::memory_order_relaxed) != 0; }

}  // namespace culprit
