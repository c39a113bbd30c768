// System calls without libc: no errno, no cancellation point, and no interposed function (a sanitizer's interceptors
// have libc's names, and are not ready while a process starts). The kernel's own result: negative = -errno.
// Async-signal-safe.
#pragma once

#include <sys/syscall.h>

namespace culprit {

__attribute__((always_inline)) inline long raw_call(long number, long a = 0, long b = 0, long c = 0, long d = 0,
                                                    long e = 0, long f = 0) {
#if defined(__x86_64__)
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "system calls are written for x86-64 and aarch64"
#endif
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

}  // namespace culprit
