#include "interpose/recorder/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "interpose/base/late_load.h"
#include "interpose/base/own_memory.h"
#include "interpose/base/prepared.h"
#include "interpose/base/store_release.h"
#include "interpose/base/text_writer.h"
#include "interpose/driver/api.h"
#include "interpose/dump/thread_names.h"
#include "interpose/dump/truncation_guard.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/recorder/attach_state.h"
#include "interpose/recorder/events.h"
#include "interpose/recorder/job_rank.h"
#include "interpose/recorder/known_threads.h"
#include "interpose/recorder/log.h"
#include "interpose/recorder/start.h"
#include "interpose/recorder/thread_end.h"
#include "interpose/stacks/stack_memo.h"
#include "interpose/stacks/unwind_services.h"

namespace culprit {

Process* quick_process = nullptr;

extern "C" void* culprit_unwind_cache(std::size_t bytes) {
  ThreadMemory* memory = thread_state.memory;
  return memory != nullptr && bytes <= sizeof(memory->unwind_cache) ? memory->unwind_cache : nullptr;
}

namespace {

std::atomic<Process*> the_process;
bool wiped_on_fork = false;
std::atomic<bool> without_memory;  // there was no room for the recorder's first structures; inherited by fork children

// The limits may have room again later; records from the middle of a run would only mislead.
void give_up_without_memory() {
  if (!without_memory.exchange(true)) tell_no_memory();
}

// The mapping is made once and serves all fork descendants; of two racing threads either may make it.
Process* mapped_process() {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process != nullptr) return process;
  int error = 0;
  void* memory = map_private(sizeof(Process), &error);
  if (memory == nullptr) return nullptr;
  bool wiped = os.advise(memory, Process::kWipedBytes, MADV_WIPEONFORK) == 0;
  Process* expected = nullptr;
  if (!the_process.compare_exchange_strong(expected, static_cast<Process*>(memory))) {
    unmap_private(memory, sizeof(Process));
    return expected;
  }
  wiped_on_fork = wiped;
  if (wiped) __atomic_store_n(&quick_process, static_cast<Process*>(memory), __ATOMIC_RELEASE);
  return static_cast<Process*>(memory);
}

// Frees the private data of a thread that no longer uses it.
void release_thread(ThreadState* state) {
  free_thread_data({state->memory, state->paths.all});
  state->paths.all = nullptr;
  state->memory = nullptr;
  state->dump.counters = nullptr;
  state->generation = 0;
  state->session = ThreadState::kNoSession;
}

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
  thread_state.marks.label = label_at_start();
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
  make_thread_memory(process);
}

std::atomic<std::uint64_t> lost_calls;  // not yet in a header

}  // namespace

Process* process_if_recording() {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr || process->phase.load(std::memory_order_acquire) != Phase::kRecording) return nullptr;
  if (!wiped_on_fork && process->pid != static_cast<int>(getpid())) return nullptr;
  return process;
}

bool recording_failed() {
  const Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr) return without_memory.load(std::memory_order_relaxed);
  return process->phase.load(std::memory_order_acquire) == Phase::kFailed;
}

namespace {

// How long a thread waits for another one to start recording.
constexpr std::uint32_t kLongestStartUs = 5000000;
constexpr std::uint32_t kPollUs = 100;

// `called`: a hook was called. See begin_without_calls().
Process* begin_process(bool called) {
  ensure_prepared();
  if (loaded_late() && !attached_here()) return nullptr;
  if (the_process.load(std::memory_order_acquire) == nullptr && !recording_wanted()) return nullptr;
  Process* process = without_memory.load(std::memory_order_relaxed) ? nullptr : mapped_process();
  if (process == nullptr) {
    give_up_without_memory();
    return nullptr;
  }
  // The kernel could not wipe the page in this fork child.
  if (!wiped_on_fork && process->pid != 0 && process->pid != static_cast<int>(getpid()))
    std::memset(static_cast<void*>(process), 0, sizeof(*process));
  for (std::uint32_t waited = 0;; waited += kPollUs) {
    Phase phase = process->phase.load(std::memory_order_acquire);
    if (phase == Phase::kRecording) return process;
    if (phase == Phase::kFailed || phase == Phase::kDetached || (phase == Phase::kNone && !recording_wanted()))
      return nullptr;
    Phase expected = Phase::kNone;
    if (phase == Phase::kNone && process->phase.compare_exchange_strong(expected, Phase::kStarting)) {
      if (start_recording(*process, called) == 0) {
        begin_recording(*process);
      } else {
        process->phase.store(Phase::kFailed, std::memory_order_release);
      }
    } else if (waited < kLongestStartUs) {
      sleep_microseconds(kPollUs);  // another thread is starting it: takes a millisecond, unless the disk is slow
    } else {
      count_lost_call();
      return nullptr;
    }
  }
}

}  // namespace

Process* recording_process() { return begin_process(true); }

void count_lost_call() {
  Process* process = process_if_recording();
  if (process != nullptr) {
    add_counter(process->dump.header()->handler_calls, 1);
  } else {
    lost_calls.fetch_add(1, std::memory_order_relaxed);
  }
}

Process* begin_without_calls() {
  Process* process = begin_process(false);
  if (process != nullptr) process->mode.fetch_or(kModeExiting);  // exit handlers registered from now on do nothing
  return process;
}

void begin_recording(Process& process) {
  add_counter(process.dump.header()->handler_calls, lost_calls.exchange(0));
  process.session.store(process.generation, std::memory_order_release);
  process.phase.store(Phase::kRecording, std::memory_order_release);
}

Process* prepare_recording(int* error) {
  Process* process = mapped_process();
  Phase expected = Phase::kNone;
  if (process == nullptr ||
      (!process->phase.compare_exchange_strong(expected, Phase::kDetached) && expected != Phase::kDetached)) {
    *error = process == nullptr ? ENOMEM : EBUSY;
    return nullptr;
  }
  *error = start_recording(*process, true);
  if (*error == 0) return process;
  release_recording();
  return nullptr;
}

void end_recording(Process& process) {
  sum_live_bytes(process);
  format::Header* header = process.dump.header();
  header->end_time_ns = now_ns(process);
  process.session.store(0);
  process.phase.store(Phase::kDetached);
  store_release(&header->process_state, format::ProcessState::kDetached);
}

void release_recording() {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr) return;
  for_each_known_thread(release_thread);
  process->spares.free_memory();
  process->tables.free_memory();
  process->stacks.free_memory();
  process->python.free_memory();
  process->marks.free_memory();
  process->gpu_questions.close();
  unguard_dump();
  process->dump.close();
  // Clears all fields except the phase, which tells concurrent hooks that recording is off. `in_use` comes last: a
  // child that is forked meanwhile then knows that its copy is not clear.
  auto* bytes = reinterpret_cast<char*>(process);
  std::memset(bytes + sizeof(process->phase), 0, Process::kWipedBytes - sizeof(process->phase));
  auto* behind = reinterpret_cast<char*>(&process->in_use) + sizeof(process->in_use);
  std::memset(behind, 0, static_cast<std::size_t>(bytes + sizeof(*process) - behind));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  __atomic_store_n(&process->in_use, false, __ATOMIC_RELEASE);
  process->phase.store(Phase::kDetached, std::memory_order_release);
}

namespace {

// A quick check whether a call may be recorded, without a switch of stacks.
bool may_record() {
  if (loaded_late() && !attached_here()) return false;
  const Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr) return !without_memory.load(std::memory_order_relaxed) && recording_wanted();
  switch (process->phase.load(std::memory_order_acquire)) {
    case Phase::kFailed:
    case Phase::kDetached:
      return false;
    case Phase::kNone:
      return recording_wanted();
    default:
      return true;
  }
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
      if (the_process.load(std::memory_order_acquire) == nullptr) give_up_without_memory();
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
  thread.marks.label = label_at_start();
  thread.failures.calls_to_watch = 0;
  thread.dump.context.forget();
  thread.dump.stream.handle = nullptr;
  make_thread_memory(*process);
}

namespace {

Place ask_current_place_here(Process& process) {
  thread_state.dump.context.forget();
  CUcontext handle = nullptr;
  if (!driver_ready() || driver().cuCtxGetCurrent(&handle) != CUDA_SUCCESS || handle == nullptr) return {};
  thread_state.dump.context.place = process.tables.contexts.of_handle(handle, now_ns(process), process.dump);
  thread_state.dump.context.handle = handle;
  thread_state.dump.context.epoch = process.tables.contexts.epoch();
  return thread_state.dump.context.place;
}

}  // namespace

Place ask_current_place(Process& process) {
  return on_own_stack([&] { return ask_current_place_here(process); });
}

void verify_place(Process& process, Place remembered) {
  format::Header* header = process.dump.header();
  add_counter(header->contexts_verified, 1);
  Place now = ask_current_place(process);
  if (now.context != remembered.context || now.device != remembered.device) add_counter(header->context_mismatches, 1);
}

}  // namespace culprit
