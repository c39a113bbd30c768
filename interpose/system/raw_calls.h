// System calls without libc: no errno, no cancellation point, and no interposed function (a sanitizer's interceptors
// have libc's names, and are not ready while a process starts). The kernel's own result: negative = -errno.
// Async-signal-safe.
#pragma once

#include <sys/syscall.h>

namespace culprit {

__attribute__((always_inline)) inline long raw_call(long number, long a = 0, long b = 0, long c = 0, long d = 0,
                                                    long e = 0, long f = 0) {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

// raw_call() for arguments of any type: pointers, and integers of any size.
template <typename T>
inline long raw_word(T value) {
  if constexpr (__is_same(T, decltype(nullptr))) {
    return 0;
  } else {
    return (long)value;
  }
}
template <typename... Arguments>
__attribute__((always_inline)) inline long system_call(long number, Arguments... arguments) {
  return raw_call(number, raw_word(arguments)...);
}

inline bool is_main_thread() { return system_call(SYS_gettid) == system_call(SYS_getpid); }

}  // namespace culprit
