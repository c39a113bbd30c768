// The functions by which the kernel tells the time.
#pragma once

#include <time.h>

#include <cstdint>

namespace culprit {

inline std::uint64_t nanoseconds(const struct timespec& time) {
  // The analyzer does not know what a raw system call writes.
  // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult)
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(time.tv_nsec);
}

using ClockFunction = int (*)(clockid_t, struct timespec*);

// By a system call.
int system_clock(clockid_t clock, struct timespec* time);
// The vDSO's function if there is one: it cannot be interposed. Thread-safe.
ClockFunction clock_function();

// The time of the kernel's last tick, without a system call where there is a vDSO.
std::uint64_t tick_ns();

}  // namespace culprit
