// Load and the end of the process.
//
// Order at exit(): destructors of the thread's thread-local objects, then handlers, last-registered first.
// before_exit() is kept the first of all (exit_handlers.h), because containers that still have a pointer are about to
// be destroyed. begin_exit() is registered at the first CUDA call, so it runs before the destructors of globals that
// were constructed earlier, and marks the exit phase; those destructors may still free memory, and their frees count.
// The handler that was registered when this library was loaded runs last, after the loader's own destructor calls:
// memory that is live then was never freed. quick_exit() has a list of its own with the same handlers.
//
// _exit() and _Exit() mark the dump and search nothing: a program calls them in order to end at once, often in a signal
// handler or while its other threads are stuck. The system call exit_group, a signal and exec leave the dump unmarked.
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "interpose/attach/audit.h"
#include "interpose/base/own_module.h"
#include "interpose/base/placement.h"
#include "interpose/base/store_release.h"
#include "interpose/call_stack/current_stack.h"
#include "interpose/causes/cxx_runtime.h"
#include "interpose/causes/exceptions.h"
#include "interpose/causes/holder_search.h"
#include "interpose/causes/lost_search.h"
#include "interpose/causes/process_facts.h"
#include "interpose/causes/unseen_users.h"
#include "interpose/control/audit_state.h"
#include "interpose/control/control_state.h"
#include "interpose/control/ended_thread.h"
#include "interpose/control/recording_switch.h"
#include "interpose/control/start.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/entry_points.h"
#include "interpose/driver/loaded_drivers.h"
#include "interpose/entry/references.h"
#include "interpose/events/driver_lives.h"
#include "interpose/events/events.h"
#include "interpose/events/pool_places.h"
#include "interpose/format/attach_request.h"
#include "interpose/hooks/fault_injection.h"
#include "interpose/hooks/runtime_frees.h"
#include "interpose/inside_python/python_view.h"
#include "interpose/loader/described_modules.h"
#include "interpose/loader/late_load.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/loader/next_functions.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/metering/metering_state.h"
#include "interpose/process/exit_handlers.h"
#include "interpose/process/hook_entry.h"
#include "interpose/process/known_threads.h"
#include "interpose/process/log.h"
#include "interpose/process/process.h"
#include "interpose/process/recording.h"
#include "interpose/process/rooms_above.h"
#include "interpose/process/thread_end.h"
#include "interpose/process/variables.h"
#include "interpose/stacks/stack.h"
#include "interpose/system/os.h"
#include "interpose/system/prepared.h"

namespace culprit {
namespace {

CULPRIT_AT_LOAD int loaded_pid;

// Reads free and total memory and the default pool's sizes of each known device, in the calling thread's driver.
void read_devices(Process& process) {
  for (int ordinal = 0; ordinal < ContextTable::kMostDevices; ++ordinal) {
    auto index = static_cast<std::uint8_t>(ordinal);
    format::DeviceRecord* device = process.tables.contexts.known_device(index, process.dump);
    CUcontext context = device == nullptr ? nullptr : process.tables.contexts.any_context_on(index);
    const PushedContext pushed(context);
    if (!pushed.done()) continue;
    format::MemoryReading reading;
    if (read_memory(now_ns(process), &reading)) {
      device->exit = reading;
      if (device->peak.total_bytes == 0 || reading.free_bytes < device->peak.free_bytes) device->peak = reading;
    }
    meter_of(process).take_balance(process, index, format::Moment::kExit);
    CUmemoryPool pool = nullptr;
    if (driver().cuDeviceGetDefaultMemPool(&pool, ordinal) == CUDA_SUCCESS && pool != nullptr) {
      cuuint64_t reserved = 0, used = 0;
      if (driver().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) == CUDA_SUCCESS &&
          driver().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS) {
        device->pool_reserved = reserved;
        device->pool_used = used;
        device->flags |= format::kDevicePoolRead;
      }
    }
  }
}

// The program may have closed its driver, and another thread may be doing so now: then there are no readings.
void read_devices_at_exit(Process& process) {
  const KeepsModules keeps;
  if (!keeps.done()) return;
  drop_closed_drivers();
  any_driver([&](LoadedDriver& driver) {
    called_driver = {&driver, nullptr, true};
    read_devices(process);
    called_driver = {nullptr, nullptr, false};
    return false;
  });
}

// The process ends in a signal handler that interrupted this thread inside the tracker, perhaps while it held a lock
// that the summary needs. The dump is complete up to the interrupted call.
bool interrupted_tracker() { return thread_state.outermost_hook != nullptr && is_in_hook() && thread_state.in_tracker; }

// Before any object of the program is destroyed, with all that it refers to.
void before_exit() {
  const CallerState caller = caller_state();
  if (!end_handlers()) return;
  Process* process = process_if_recording();
  if (process == nullptr || interrupted_tracker() || (process->mode.load() & kModeExiting) != 0) return;
  record_on_own_stack([&](Process& recording) {
    search_holders(recording);
    if (!recording.options.search_lost) return;
    if (!loaded_late()) note_unseen_users(recording);
    search_lost(recording, caller);
  });
}

void begin_exit(int, void*) {
  // Check first: in a fork child that never called CUDA, constructing Recording would begin a dump.
  Process* process = process_if_recording();
  if (process == nullptr || interrupted_tracker() || (process->mode.fetch_or(kModeExiting) & kModeExiting) != 0) return;
  watch_runtime_frees();
  look_for_closed_drivers();
  record_on_own_stack([](Process& recording) {
    sum_live_bytes(recording);
    recording.tables.threads.name_the_running(recording.dump);
    format::Header* header = recording.dump.header();
    header->end_time_ns = now_ns(recording);
    header->process_state = format::ProcessState::kExiting;
    if (recording.options.fail[0] != '\0') header->exit_stack = current_stack(recording);
    read_devices_at_exit(recording);
    if (recording.dump.header()->holder_search == format::HolderSearch::kNotRun) search_holders(recording);
    // Where no search asked for it: the report says that Python's objects were not seen.
    static_cast<void>(has_python(recording));
    // An attach searches all memory itself.
    if (!loaded_late() && recording.dump.header()->lost_search == format::LostSearch::kNotRun)
      note_unseen_users(recording);
  });
}

// If the driver was called but no hook ever was, creates a dump that says so. Not in a fork child, where another thread
// of the parent may have held the loader's lock.
CULPRIT_LOADING void note_unseen_process() {
  if (loaded_late() || process_if_recording() != nullptr || static_cast<int>(getpid()) != loaded_pid) return;
  if (!may_have_unseen_users()) return;
  on_own_stack([] {
    if (!has_unseen_users()) return;
    if (Process* process = begin_without_calls()) note_unseen_users(*process);
  });
}

// Other processes see the lowest byte.
int exit_code_of(int status) { return status & 0xff; }

void finish_here(Process& process, int status, bool interrupted) {
  if (!interrupted) sum_live_bytes(process);
  format::Header* header = process.dump.header();
  header->exit_status = exit_code_of(status);
  header->end_time_ns = now_ns(process);
  store_release(&header->process_state, format::ProcessState::kExited);
  if (interrupted) return;
  if (process.dump.check_truncated()) warn_if_stopped(process);
  log_summary(process.dump, process.tables, process.options);
}

// Marks the dump as exited and prints the summary, once, however the process ends.
CULPRIT_LOADING void finish(int status) {
  Process* process = process_if_recording();
  // A vfork child shares our memory but not our pid.
  if (process == nullptr || process->pid != static_cast<int>(getpid())) return;
  if (process->summary_done.exchange(1) != 0) {
    // An exit handler that was registered before ours ends the process with a status of its own.
    process->dump.header()->exit_status = exit_code_of(status);
    return;
  }
  const bool interrupted = interrupted_tracker();
  on_own_stack([&] {
    VisitInTracker visit;
    if (process_if_recording() == process) finish_here(*process, status, interrupted);
  });
}

CULPRIT_LOADING void at_the_very_end(int status, void*) {
  if (!interrupted_tracker()) note_unseen_process();
  finish(status);
}

// Handlers of quick_exit() are not told the status.
std::atomic<bool> quick_exit_called;
std::atomic<int> quick_exit_status;

void begin_quick_exit() { begin_exit(0, nullptr); }

// Without a status, because quick_exit() was called past our own, the dump stays unmarked: its report says that the end
// is not known, instead of a wrong status.
void at_the_very_quick_end() {
  if (quick_exit_called.load()) finish(quick_exit_status.load());
}

// The environment of the start, which the loader passes to constructors; nullptr when other code calls us first, in a
// library that was loaded late, and with musl.
CULPRIT_AT_LOAD char* const* environment_at_load = nullptr;
CULPRIT_AT_LOAD bool constructing = false;

// The list of the rooms above those of the recorder. The fields are stored one by one: a repeated
// preparation must not clear what another thread already calls.
CULPRIT_LOADING void fill_rooms_above() {
  rooms_above.state_bytes = sizeof(EventsState);
  rooms_above.wants_recording = recording_wanted;
  rooms_above.start = start_recording;
  rooms_above.end_thread = end_thread;
  rooms_above.note_thread_end = note_thread_end;
  rooms_above.breakdown_peak = [](Process& process, std::uint8_t device, std::uint64_t live, bool at_exit) {
    breakdowns_of(process).take_at_peak(process, device, live, at_exit);
  };
  rooms_above.serve_view = serve_view_requests;
  rooms_above.begin_audit = start_audit;
  rooms_above.before_exit = before_exit;
  rooms_above.at_exit = begin_exit;
  rooms_above.at_quick_exit = begin_quick_exit;
}

// In a signal handler that interrupted exit() or on_exit(), this would wait for their lock for ever. Then the
// constructor does it.
CULPRIT_LOADING void watch_very_end() {
  CULPRIT_AT_LOAD static std::atomic<bool> watched;
  if (!constructing && is_in_signal_handler()) return;
  // on_exit instead of atexit, because it passes the exit status. Registered this early it needs no malloc either.
  if (watched.exchange(true)) return;
  at_exit_with_status(at_the_very_end);
  at_quick_end(at_the_very_quick_end);
}

// musl passes nothing to constructors: its registers hold any values. The kernel lays the environment behind the
// arguments.
__attribute__((constructor)) void on_load(int count, char** arguments, char** environment) {
  if (environment == arguments + count + 1) environment_at_load = environment;
  constructing = true;
  preparation.run([] { culprit_do_preparation(); });
  watch_very_end();
}

}  // namespace

}  // namespace culprit

// Seen by `culprit attach` from outside.
extern "C" __attribute__((visibility("default"))) std::uint64_t culprit_prepared;
CULPRIT_AT_LOAD std::uint64_t culprit_prepared;

// Each step may be repeated: see Once.
CULPRIT_LOADING void culprit_do_preparation() {
  using namespace culprit;
  // Only the necessary work: every process pays for each page that is touched here. Interposed functions of libc are
  // looked up when they are called.
  const KeptDescriptions described(constructing && !loaded_late());
  CULPRIT_AT_LOAD static std::atomic<bool> answered;
  if (!answered.exchange(true)) answer_references();
  loaded_pid = static_cast<int>(getpid());
  remember_stderr();
  const bool uses_cuda = !loaded_late() && cuda_is_loaded();
  keep_variables(environment_at_load, uses_cuda);
  // Other processes do this at the first call, after a check for a seccomp filter.
  if (uses_cuda) prepare_to_meet_threads();
  prepare_cxx_runtime();
  find_other_interposers();
  prepare_failures();
  fill_rooms_above();
  prepare_recording_switch();
  prepare_thread_end();
  thread_calls_driver = [] { return thread_state.outermost_hook != nullptr; };
  watch_very_end();
  store_release(&culprit_prepared, format::kPrepared);
}

// A process that ends by _exit() runs no handlers. A vfork child that fails also calls _exit(): it shares our memory
// but not our pid, which finish() checks.
CULPRIT_EXPORT __attribute__((noreturn)) void _exit(int status) {
  culprit::finish(status);
  if (const culprit::ExitFunction exit_now = culprit::next_exit()) exit_now(status);
  for (;;) syscall(SYS_exit_group, status);
}

CULPRIT_EXPORT __attribute__((noreturn)) void _Exit(int status) { _exit(status); }

// A static object was constructed, or atexit() was called.
CULPRIT_EXPORT int __cxa_atexit(void (*function)(void*), void* argument, void* library) noexcept {
  const culprit::AtExitFunction next = culprit::next_cxa_atexit();
  if (next == nullptr) return -1;
  const int result = next(function, argument, library);
  culprit::keep_first_handler();
  return result;
}

CULPRIT_EXPORT int on_exit(void (*function)(int, void*), void* argument) noexcept {
  const culprit::OnExitFunction next = culprit::next_on_exit();
  if (next == nullptr) return -1;
  const int result = next(function, argument);
  culprit::keep_first_handler();
  return result;
}

// A thread-local object was constructed.
CULPRIT_EXPORT int __cxa_thread_atexit_impl(void (*function)(void*), void* argument, void* library) noexcept {
  const culprit::AtExitFunction next = culprit::next_cxa_thread_atexit();
  if (next == nullptr) return -1;
  const int result = next(function, argument, library);
  culprit::keep_first_destructor();
  return result;
}

// at_quick_exit() was called.
CULPRIT_EXPORT int __cxa_at_quick_exit(void (*function)(void*), void* library) noexcept {
  const culprit::AtQuickExitFunction next = culprit::next_cxa_at_quick_exit();
  if (next == nullptr) return -1;
  const int result = next(function, library);
  culprit::keep_first_quick_handler();
  return result;
}

CULPRIT_EXPORT __attribute__((noreturn)) void quick_exit(int status) noexcept {
  culprit::quick_exit_status.store(status);
  culprit::quick_exit_called.store(true);
  if (const culprit::ExitFunction exit_quickly = culprit::next_quick_exit()) exit_quickly(status);
  _exit(status);
}

// After an unload, cached addresses may be stale: see StackTable.
CULPRIT_EXPORT int dlclose(void* handle) {
  const culprit::CloseFunction close_library = culprit::next_dlclose();
  if (close_library == nullptr) return -1;
  culprit::begin_unloading(handle);
  int result = close_library(handle);
  culprit::end_unloading(handle);
  culprit::note_module_closed();
  culprit::drop_former_handlers();
  culprit::look_for_closed_drivers();
  return result;
}
