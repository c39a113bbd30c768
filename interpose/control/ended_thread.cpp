#include "interpose/control/ended_thread.h"

#include "interpose/control/marks.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/metering/stream_use.h"
#include "interpose/process/known_threads.h"
#include "interpose/process/recording.h"
#include "interpose/process/rooms_above.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/own_stack.h"

namespace culprit {
namespace {

void end_recorded_thread() {
  forget_open_marks();
  // The thread's frames are gone, so it left this hook by a cancellation or a jump.
  if (thread_state.outermost_hook != nullptr) repair_left_hook();
  Process* process = process_if_recording();
  if (process == nullptr || thread_state.generation != process->generation) return;
  rooms_above.note_thread_end(*process);
  process->tables.threads.end(thread_state.index, now_ns(*process), thread_state.sums.made, thread_state.sums.ended,
                              process->dump);
  flush_live_bytes(*process);
  StreamUse::give_up(&thread_state.vacant_stream);
  if (thread_state.dump.counters != nullptr) process->tables.counters.give_back(thread_state.dump.counters);
  thread_state.dump.counters = nullptr;
  thread_state.session = ThreadState::kNoSession;
  thread_state.generation = 0;  // a later destructor of this thread that calls CUDA registers it again
  ThreadMemory* memory = thread_state.memory;
  if (memory != nullptr) process->holders.leave(&memory->holder);
  if (memory != nullptr) process->tables.live.end_thread(&memory->records, process->dump);
  process->spares.give({memory, thread_state.paths.all});
  thread_state.paths.all = nullptr;
  thread_state.memory = nullptr;
}

}  // namespace

void end_thread() {
  bool limited = true;
  on_own_stack([&] {
    end_recorded_thread();
    forget_this_thread();
    limited = memory_is_limited();
  });
  release_own_stack(!limited);
}

}  // namespace culprit
