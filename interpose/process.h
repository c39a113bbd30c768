// Everything that recording knows about this process, in one mapping that the kernel wipes in a fork child
// (MADV_WIPEONFORK): a child finds `phase` zero and starts a dump of its own at its first event, and never writes into
// its parent's.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/clock.h"
#include "interpose/contexts.h"
#include "interpose/dump_writer.h"
#include "interpose/event_tables.h"
#include "interpose/live_table.h"
#include "interpose/modules.h"
#include "interpose/options.h"
#include "interpose/stack_table.h"
#include "interpose/thread_counters.h"
#include "interpose/thread_state.h"

namespace culprit {

enum class Phase : std::uint32_t {
  kNone = 0,
  kStarting = 1,
  kRecording = 2,
  kFailed = 3,  // no dump could be made: hooks only forward
};

struct Process {
  std::atomic<Phase> phase;
  std::atomic<int> exiting;  // exit handlers are running
  std::uint32_t generation;
  int pid;
  Clock clock;
  Options options;
  DumpWriter dump;
  ModuleTable modules;
  StackTable stacks;
  LiveTable live;
  ErrorTable errors;
  FailedCallTable failed_calls;
  EvidenceTable evidence;
  ReleaseTable releases;
  ThreadTable threads;
  CounterBlocks counters;
  ContextTable contexts;
  std::atomic<std::uint32_t> module_generation;  // up to which unloaded modules were taken note of
  SpinLock references_lock;            // guards reference counts and mappings of VMM and IPC memory and user objects
  std::atomic<int> captures;           // streams being captured
  std::atomic<int> graph_memory;       // graph memory records
  std::atomic<int> unlaunched_memory;  // of those, the ones that no launch has made real
  std::atomic<std::uint64_t> last_reading_ns;
  std::atomic<int> summary_done;
  std::atomic<int> stop_warned;
};

// The running process, with recording started; nullptr when it could not be started. Starts it on the first call after
// load or after a fork.
Process* recording_process();

// The same without starting anything: nullptr when nothing is being recorded.
Process* process_if_recording();

inline std::uint64_t now_ns(Process& process) { return process.clock.now(); }

// Marks one stretch of our own bookkeeping. `process()` is nullptr when nothing is to be recorded: recording is off, or
// this is a signal handler that interrupted another such stretch. Keeps errno as the user's thread had it.
class Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  Process* process() const { return process_; }

 private:
  Process* process_;
  int saved_errno_;
};

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
std::uint32_t loaded_modules_generation();

// A module may have been unloaded: addresses remembered so far may mean something else now.
void note_module_unloaded();

// The calling thread's stack as a number in the dump, 0 if it could not be stored.
format::Ref current_stack(Process& process);

// The place of the context that is current to the calling thread.
Place current_place(Process& process);

}  // namespace culprit
