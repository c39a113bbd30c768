// The functions of libc that stand behind our own: the next definition in lookup order, libc's or another interposer's.
//
// Each is looked up when it is first asked for, because a look-up at load would cost every process. Threads that ask at
// the same time store equal values. nullptr when there is no such function. Thread-safe; keeps errno.
#pragma once

namespace culprit {

using ExitFunction = void (*)(int status);
using CloseFunction = int (*)(void* handle);

using AtExitFunction = int (*)(void (*function)(void*), void* argument, void* library);

using FinalizeFunction = void (*)(void* library);

using OnExitFunction = int (*)(void (*function)(int status, void* argument), void* argument);
using AtQuickExitFunction = int (*)(void (*function)(void*), void* library);

AtExitFunction next_cxa_atexit();
AtExitFunction next_cxa_thread_atexit();  // __cxa_thread_atexit_impl()
OnExitFunction next_on_exit();
AtQuickExitFunction next_cxa_at_quick_exit();
// libc's own, past every interposer: the look-up is short, because every process pays for it at load.
OnExitFunction on_exit_of_libc();
AtExitFunction cxa_atexit_of_libc();
FinalizeFunction cxa_finalize_of_libc();
AtQuickExitFunction at_quick_exit_of_libc();
ExitFunction next_exit();  // _exit()
ExitFunction next_quick_exit();
CloseFunction next_dlclose();
void* next_dladdr();
void* next_dladdr1();
void* next_pthread_exit();  // to be jumped to
void* next_pthread_cancel();

}  // namespace culprit
