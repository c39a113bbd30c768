#include "interpose/process/recording.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/dump/thread_names.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/process/known_threads.h"
#include "interpose/process/log.h"
#include "interpose/process/thread_end.h"
#include "interpose/stacks/stack_memo.h"
#include "interpose/stacks/unwind_services.h"
#include "interpose/system/prepared.h"

namespace culprit {

extern "C" void* culprit_unwind_cache(std::size_t bytes) {
  ThreadMemory* memory = thread_state.memory;
  return memory != nullptr && bytes <= sizeof(memory->unwind_cache) ? memory->unwind_cache : nullptr;
}

void release_thread(ThreadState* state) {
  free_thread_data({state->memory, state->paths.all});
  state->paths.all = nullptr;
  state->memory = nullptr;
  state->dump.counters = nullptr;
  state->generation = 0;
  state->session = ThreadState::kNoSession;
}

namespace {

void make_thread_memory(Process& process) {
  const ThreadData data = process.spares.take(process.dump);
  thread_state.memory = data.memory;
  thread_state.paths.all = data.paths;
  if (thread_state.memory == nullptr) {
    process.holders.enter_unwatched();
  } else {
    process.tables.live.begin_thread(&thread_state.memory->records);
    StackHolder& holder = thread_state.memory->holder;
    holder.in_section = &thread_state.in_tracker;
    holder.memo = &thread_state.memory->stacks;
    holder.python = &thread_state.memory->python;
    holder.paths = thread_state.paths.all;
    process.holders.enter(&holder);
  }
  thread_state.paths.current = 0;
  const bool complete =
      thread_state.memory != nullptr && thread_state.paths.all != nullptr && thread_state.dump.counters != nullptr;
  thread_state.session = complete ? process.generation : ThreadState::kNoSession;
}

void register_thread(Process& process) {
  release_thread(&thread_state);  // a fork child's copy of the parent's thread data
  thread_locks.thread_id = static_cast<std::uint32_t>(syscall(SYS_gettid));
  thread_state.generation = process.generation;
  thread_state.marks.label = thread_state.marks.at_start();
  thread_state.times = {};
  thread_state.dump.context.forget();
  thread_state.dump.stream.handle = nullptr;
  thread_state.index = process.tables.threads.add(now_ns(process), process.dump);
  if (thread_state.index == format::kNoIndex) add_counter(process.dump.header()->dropped_others, 1);
  apply_thread_name(process.tables.threads, thread_state.index, process.dump);
  thread_state.sums.made = thread_state.sums.ended = 0;
  watch_thread_end();
  thread_state.dump.counters = process.tables.counters.take(process.dump);
  thread_state.failures.calls_to_watch = 0;
  thread_state.sums.live_delta = 0;
  thread_state.sums.live_device = format::kNoDevice;
  thread_state.vacant_stream = {};
  make_thread_memory(process);
}

}  // namespace

Process* Recording::begin(int* saved_errno, bool* first_of_thread) {
  *saved_errno = errno;
  ensure_prepared();
  if (!may_record()) return nullptr;
  if (thread_state.known.past_its_end && !on_own_stack(resume_in_exit)) {
    if (!is_on_own_stack()) release_own_stack(false);  // the end of the thread will not be seen again
    count_lost_call();
    return nullptr;
  }
  thread_state.in_tracker = true;
  Process* process = on_own_stack([&]() -> Process* {
    thread_state.error_number = &errno;
    // A detach waits for known threads, so register before testing whether recording is on.
    if (!know_this_thread()) {
      count_lost_call();
      give_up_without_memory();
      return nullptr;
    }
    Process* found = recording_process();
    *first_of_thread = found != nullptr && thread_state.generation != found->generation;
    if (*first_of_thread) register_thread(*found);
    return found;
  });
  if (process == nullptr) thread_state.in_tracker = false;
  return process;
}

void repair_left_hook() {
  ThreadState& thread = thread_state;
  const bool torn = thread.in_tracker;
  thread.outermost_hook = nullptr;
  thread.in_tracker = false;
  Process* process = process_if_recording();
  if (process == nullptr || thread.generation != process->generation) {
    thread_locks.shard = nullptr;
    return;
  }
  add_counter(process->dump.header()->left_hooks, 1);
  process->tables.live.repair_left_shard(process->dump);
  process->tables.time_lines.repair_left();
  if (!torn) return;
  // The thread left the tracker itself by a jump: its private data may be inconsistent, and is created anew.
  if (thread.memory != nullptr) {
    process->holders.leave(&thread.memory->holder);
    process->tables.live.abandon_thread(&thread.memory->records, process->dump);
  }
  free_thread_data({thread.memory, thread.paths.all});
  thread.marks.label = thread.marks.at_start();
  thread.failures.calls_to_watch = 0;
  thread.dump.context.forget();
  thread.dump.stream.handle = nullptr;
  make_thread_memory(*process);
}

void warn_if_stopped(Process& process) {
  if (!process.dump.has_news()) return;
  on_own_stack([&] {
    if (!process.dump.take_news()) return;
    format::Header* header = process.dump.header();
    if (header->stop_time_ns == 0) header->stop_time_ns = now_ns(process);
    if (process.options.log_level >= LogLevel::kWarn) warn_stopped(process.dump);
  });
}

}  // namespace culprit
