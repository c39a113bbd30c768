// How the end of a thread is noticed. ended_thread.h says what is done then.
//
// libc calls exit() in the thread whose end ends the process, when that thread's destructors have run, ours too. Exit
// handlers and the destructors of globals then still allocate and free.
//
// It is noticed by the destructor of a key for thread-specific data, so a program has 1,023 keys instead of 1,024. Our
// key is number 31, and a program's first ones have the numbers 0 to 30 as they have alone. Destructors run in the
// order of the keys, so those of the first 31 keys run before ours in the fourth round too, and their frees are
// recorded. A call by the destructor of a later key in its fourth round is counted as not recorded.
//
// Rejected, the first two after prototypes:
//
// - A node in the thread's robust list, which the kernel marks with FUTEX_OWNER_DIED. The mark has no time, and another
//   thread finds it later, or none does. The kernel marks the running threads too when the process is killed or calls
//   _exit(): the dump of a killed process would not tell which of its threads had ended.
// - An exported pthread_create() that wraps the start routine. Threads of timers (SIGEV_THREAD), of aio_read() and of
//   thrd_create() do not pass it: libc calls its own function. The routine returns before the destructors run, and
//   those free memory, too.
// - __cxa_thread_atexit_impl(), which calls calloc() and takes the loader's lock.
// - The word that the kernel clears at a thread's end. It belongs to pthread_join().
#pragma once

namespace culprit {

// Call once, at load: makes the key.
void prepare_thread_end();

// Arranges for the calling thread's end to be noticed. Call when the thread gets data of its own. Thread-safe and
// async-signal-safe; without effect when the process has no key left for thread-specific data.
void watch_thread_end();

// Whether the calling thread runs exit() or quick_exit(). On the tracker's own stack only.
bool exit_runs();

// The calling thread's end was handled, and it calls CUDA. Returns true, and lets the thread use the tracker again,
// when it runs exit() now: the thread will end with the process only. On the tracker's own stack only.
bool resume_in_exit();

}  // namespace culprit
