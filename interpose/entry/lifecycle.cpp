// Load, the ends of threads, and the end of the process.
//
// Order at exit(): handlers run last-registered first. Ours is registered at the first CUDA call, so it runs before the
// destructors of globals that were constructed earlier, and marks the exit phase; those destructors may still free
// memory, and their frees count. The handler that was registered when this library was loaded runs last, after the
// loader's own destructor calls: memory that is live then was never freed.
#include "interpose/entry/lifecycle.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/base/late_load.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/os.h"
#include "interpose/base/own_memory.h"
#include "interpose/base/own_module.h"
#include "interpose/base/store_release.h"
#include "interpose/causes/cxx_runtime.h"
#include "interpose/causes/exceptions.h"
#include "interpose/causes/holder_search.h"
#include "interpose/causes/unseen_users.h"
#include "interpose/driver/redirect.h"
#include "interpose/hooks/fault_injection.h"
#include "interpose/hooks/runtime_frees.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/recorder/events.h"
#include "interpose/recorder/known_threads.h"
#include "interpose/recorder/log.h"
#include "interpose/recorder/marks.h"
#include "interpose/recorder/process.h"
#include "interpose/stacks/stack_memo.h"

namespace culprit {
namespace {

pthread_key_t thread_end_key;
bool thread_end_key_made = false;
int loaded_pid;

// The functions of libc that we interpose.
struct NextFunctions {
  void (*exit_now)(int);
  int (*close_library)(void*);
  void* exit_thread;
  void* cancel_thread;
};
NextFunctions next;

void find_next_functions() {
  next.exit_now = reinterpret_cast<void (*)(int)>(next_definition("_exit"));
  next.close_library = reinterpret_cast<int (*)(void*)>(next_definition("dlclose"));
  next.exit_thread = reinterpret_cast<void*>(next_definition("pthread_exit"));
  next.cancel_thread = reinterpret_cast<void*>(next_definition("pthread_cancel"));
}

void end_thread() {
  forget_open_marks();
  // The thread's frames are gone, so it left this hook by a cancellation or a jump.
  if (thread_state.outermost_hook != nullptr) repair_left_hook();
  Process* process = process_if_recording();
  if (process == nullptr || thread_state.generation != process->generation) return;
  note_thread_end(*process);
  process->threads.end(thread_state.index, now_ns(*process), thread_state.made, thread_state.ended, process->dump);
  flush_live_bytes(*process);
  if (thread_state.counters != nullptr) process->counters.give_back(thread_state.counters);
  thread_state.counters = nullptr;
  thread_state.session = ThreadState::kNoSession;
  thread_state.generation = 0;  // a later destructor of this thread that calls CUDA registers it again
  ThreadMemory* memory = thread_state.memory;
  if (memory != nullptr) process->holders.leave(&memory->holder);
  ThreadPaths* paths = thread_state.paths;
  thread_state.paths = nullptr;
  if (paths != nullptr) paths->destroy();
  thread_state.memory = nullptr;
  if (memory == nullptr) return;
  process->live.end_thread(&memory->records, process->dump);
  unmap_private(memory, sizeof(ThreadMemory));
}

// Thread-specific destructors may call CUDA, and those of other keys may run after ours. So the end is handled in the
// last round that POSIX guarantees: until then this destructor stores its value again.
void thread_ends(void*) {
  constexpr int kRounds = 4;  // PTHREAD_DESTRUCTOR_ITERATIONS
  if (++thread_state.ends < kRounds) {
    watch_thread_end();
    return;
  }
  on_own_stack([] {
    end_thread();
    forget_this_thread();
  });
  release_own_stack();
}

// Reads free and total memory and the default pool's sizes of each known device.
void read_devices_at_exit(Process& process) {
  if (!driver_ready()) return;
  for (int ordinal = 0; ordinal < ContextTable::kMostDevices; ++ordinal) {
    auto index = static_cast<std::uint8_t>(ordinal);
    format::DeviceRecord* device = process.contexts.known_device(index, process.dump);
    CUcontext context = device == nullptr ? nullptr : process.contexts.any_context_on(index);
    if (context == nullptr || driver().cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) continue;
    format::MemoryReading reading;
    if (read_memory(now_ns(process), &reading)) {
      device->exit = reading;
      if (device->peak.total_bytes == 0 || reading.free_bytes < device->peak.free_bytes) device->peak = reading;
    }
    CUmemoryPool pool = nullptr;
    if (driver().cuDeviceGetDefaultMemPool != nullptr &&
        driver().cuDeviceGetDefaultMemPool(&pool, ordinal) == CUDA_SUCCESS) {
      cuuint64_t value = 0;
      if (driver().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value) == CUDA_SUCCESS)
        device->pool_reserved = value;
      if (driver().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value) == CUDA_SUCCESS)
        device->pool_used = value;
    }
    CUcontext popped = nullptr;
    driver().cuCtxPopCurrent_v2(&popped);
  }
}

// The process ends in a signal handler that interrupted this thread inside the tracker, perhaps while it held a lock
// that the summary needs. The dump is complete up to the interrupted call.
bool interrupted_tracker() { return is_in_hook() && thread_state.in_tracker; }

void begin_exit(int, void*) {
  // Check first: in a fork child that never called CUDA, constructing Recording would begin a dump.
  Process* process = process_if_recording();
  if (process == nullptr || interrupted_tracker() || (process->mode.fetch_or(kModeExiting) & kModeExiting) != 0) return;
  watch_runtime_frees();
  record_on_own_stack([](Process& recording) {
    sum_live_bytes(recording);
    format::Header* header = recording.dump.header();
    header->end_time_ns = now_ns(recording);
    header->process_state = format::ProcessState::kExiting;
    if (recording.options.fail[0] != '\0') header->exit_stack = current_stack(recording);
    read_devices_at_exit(recording);
    search_holders(recording);
    if (!loaded_late()) note_unseen_users(recording);  // an attach searches all memory itself
  });
}

// If the driver was called but no hook ever was, creates a dump that says so. Not in a fork child, where another thread
// of the parent may have held the loader's lock.
void note_unseen_process() {
  if (loaded_late() || process_if_recording() != nullptr || static_cast<int>(getpid()) != loaded_pid) return;
  if (!has_unseen_users()) return;
  if (Process* process = begin_without_calls()) note_unseen_users(*process);
}

void finish_here(Process& process, int status, bool interrupted) {
  if (!interrupted) sum_live_bytes(process);
  format::Header* header = process.dump.header();
  header->exit_status = status;
  header->end_time_ns = now_ns(process);
  store_release(&header->process_state, format::ProcessState::kExited);
  if (!interrupted) log_summary(process);
}

// Marks the dump as exited and prints the summary, once, however the process ends.
void finish(int status) {
  Process* process = process_if_recording();
  // A vfork child shares our memory but not our pid.
  if (process == nullptr || process->pid != static_cast<int>(getpid()) || process->summary_done.exchange(1) != 0)
    return;
  const bool interrupted = interrupted_tracker();
  on_own_stack([&] {
    know_this_thread();  // so that a detach waits for it
    const bool before = thread_state.in_tracker;
    thread_state.in_tracker = true;
    if (process_if_recording() == process) finish_here(*process, status, interrupted);
    thread_state.in_tracker = before;
  });
}

void at_the_very_end(int status, void*) {
  if (!interrupted_tracker()) on_own_stack([] { note_unseen_process(); });
  finish(status);
}

void at_quick_exit_handler() {
  begin_exit(0, nullptr);
  finish(0);
}

__attribute__((constructor)) void on_load() {
  // Only the necessary work: every process pays for each page that is touched here. Interposed functions of libc are
  // looked up when they are called.
  find_out_when_loaded();
  loaded_pid = static_cast<int>(getpid());
  remember_stderr();
  // Other processes do this at the first call, after a check for a seccomp filter.
  if (!loaded_late() && cuda_is_loaded()) prepare_to_meet_threads();
  prepare_cxx_runtime();
  find_other_interposers();
  prepare_failures();
  prepare_recording_switch();
  // Created now, while few keys exist: the values of a process's first 32 keys need no malloc in pthread_setspecific.
  thread_end_key_made = pthread_key_create(&thread_end_key, thread_ends) == 0;
  // on_exit instead of atexit, because it passes the exit status. Registered this early it needs no malloc either.
  on_exit(at_the_very_end, nullptr);
}

}  // namespace

namespace {
std::atomic<bool> registered{false};
}

void register_exit_handlers() {
  // Already registered: a second attach, or a fork child.
  if (registered.load(std::memory_order_relaxed)) return;
  // A signal handler may have interrupted exit(), which holds the lock of on_exit(): then the next new thread or stack
  // registers the handlers.
  if (is_in_signal_handler() || registered.exchange(true)) return;
  on_exit(begin_exit, nullptr);
  at_quick_exit(at_quick_exit_handler);
}

void* next_pthread_exit() {
  if (next.exit_thread == nullptr) find_next_functions();
  return next.exit_thread;
}

void* next_pthread_cancel() {
  if (next.cancel_thread == nullptr) find_next_functions();
  return next.cancel_thread;
}

void watch_thread_end() {
  if (thread_end_key_made) pthread_setspecific(thread_end_key, &thread_state);
}

}  // namespace culprit

#define CULPRIT_EXPORT extern "C" __attribute__((visibility("default")))

// A process that ends by _exit() runs no handlers. A vfork child that fails also calls _exit(): it shares our memory
// but not our pid, which finish() checks.
CULPRIT_EXPORT __attribute__((noreturn)) void _exit(int status) {
  culprit::finish(status);
  if (culprit::next.exit_now == nullptr) culprit::find_next_functions();
  if (culprit::next.exit_now != nullptr) culprit::next.exit_now(status);
  for (;;) syscall(SYS_exit_group, status);
}

CULPRIT_EXPORT __attribute__((noreturn)) void _Exit(int status) { _exit(status); }

// After an unload, cached addresses may be stale: see StackTable.
CULPRIT_EXPORT int dlclose(void* handle) {
  if (culprit::next.close_library == nullptr) culprit::find_next_functions();
  if (culprit::next.close_library == nullptr) return -1;
  culprit::begin_unloading();
  int result = culprit::next.close_library(handle);
  culprit::end_unloading();
  culprit::note_module_unloaded();
  return result;
}
