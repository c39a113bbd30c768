#include "interpose/loader/next_functions.h"

#include "interpose/base/placement.h"
#include "interpose/loader/late_load.h"

namespace culprit {
namespace {

void* function(void** known, const char* name, std::uint64_t (*look_up)(const char*) = next_definition) {
  void* found = __atomic_load_n(known, __ATOMIC_RELAXED);
  if (found != nullptr) return found;
  found = reinterpret_cast<void*>(look_up(name));
  __atomic_store_n(known, found, __ATOMIC_RELAXED);
  return found;
}

void* at_exit;
void* at_thread_exit;
void* on_exit_too;
void* at_quick_exit_too;
void* exit_now;
void* exit_quickly;
void* close_library;
void* address_information;
void* more_address_information;
void* exit_thread;
void* cancel_thread;
CULPRIT_AT_LOAD void* libcs_on_exit;
void* libcs_cxa_atexit;
void* libcs_cxa_finalize;
CULPRIT_AT_LOAD void* libcs_at_quick_exit;

}  // namespace

AtExitFunction next_cxa_atexit() { return reinterpret_cast<AtExitFunction>(function(&at_exit, "__cxa_atexit")); }

AtExitFunction next_cxa_thread_atexit() {
  return reinterpret_cast<AtExitFunction>(function(&at_thread_exit, "__cxa_thread_atexit_impl"));
}

OnExitFunction next_on_exit() { return reinterpret_cast<OnExitFunction>(function(&on_exit_too, "on_exit")); }

AtQuickExitFunction next_cxa_at_quick_exit() {
  return reinterpret_cast<AtQuickExitFunction>(function(&at_quick_exit_too, "__cxa_at_quick_exit"));
}

OnExitFunction on_exit_of_libc() {
  return reinterpret_cast<OnExitFunction>(function(&libcs_on_exit, "on_exit", libc_function));
}

AtExitFunction cxa_atexit_of_libc() {
  return reinterpret_cast<AtExitFunction>(function(&libcs_cxa_atexit, "__cxa_atexit", libc_function));
}

FinalizeFunction cxa_finalize_of_libc() {
  return reinterpret_cast<FinalizeFunction>(function(&libcs_cxa_finalize, "__cxa_finalize", libc_function));
}

AtQuickExitFunction at_quick_exit_of_libc() {
  return reinterpret_cast<AtQuickExitFunction>(function(&libcs_at_quick_exit, "__cxa_at_quick_exit", libc_function));
}

ExitFunction next_exit() { return reinterpret_cast<ExitFunction>(function(&exit_now, "_exit")); }

ExitFunction next_quick_exit() { return reinterpret_cast<ExitFunction>(function(&exit_quickly, "quick_exit")); }

CloseFunction next_dlclose() { return reinterpret_cast<CloseFunction>(function(&close_library, "dlclose")); }

void* next_dladdr() { return function(&address_information, "dladdr"); }

void* next_dladdr1() { return function(&more_address_information, "dladdr1"); }

void* next_pthread_exit() { return function(&exit_thread, "pthread_exit"); }

void* next_pthread_cancel() { return function(&cancel_thread, "pthread_cancel"); }

}  // namespace culprit
