#include "interpose/clock.h"

#include <cstring>

#include "interpose/elf_symbols.h"

namespace culprit {
namespace {

#if defined(__aarch64__)
constexpr const char* kClockGettime = "__kernel_clock_gettime";
#else
constexpr const char* kClockGettime = "__vdso_clock_gettime";
#endif

int visit_for_vdso(struct dl_phdr_info* info, std::size_t, void* address) {
  ElfModule module;
  // vdso(7): "linux-vdso.so.1" on both.
  if (!describe_module(*info, &module) || module.soname == nullptr ||
      std::strncmp(module.soname, "linux-vdso", 10) != 0)
    return 0;
  *static_cast<std::uint64_t*>(address) = find_symbol(module, kClockGettime);
  return 1;
}

}  // namespace

void Clock::start() {
  std::uint64_t address = 0;
  dl_iterate_phdr(visit_for_vdso, &address);
  function_ = address != 0 ? reinterpret_cast<Function>(address) : &clock_gettime;
  start_ns_ = read(CLOCK_MONOTONIC);
  floor_.store(start_ns_, std::memory_order_relaxed);
  // Where the kernel's clocks are system calls (gVisor, valgrind, vdso=0) a tick costs as much as the time itself.
  ticks_are_cheap_ = cost_of(CLOCK_MONOTONIC_COARSE) * 2 < cost_of(CLOCK_MONOTONIC);
}

std::uint64_t Clock::cost_of(clockid_t clock) {
  return least_time(
      4, [&] { return read(CLOCK_MONOTONIC); },
      [&] {
        for (int i = 0; i < 16; ++i) read(clock);
      });
}

std::uint64_t Clock::now() {
  std::uint64_t time = read(CLOCK_MONOTONIC);
  std::uint64_t floor = floor_.load(std::memory_order_relaxed);
  while (floor < time && !floor_.compare_exchange_weak(floor, time, std::memory_order_relaxed)) {
  }
  return time - start_ns_;
}

std::uint64_t Clock::exact_event(EventTimes* times) {
  std::uint64_t time = read(CLOCK_MONOTONIC);
  std::uint64_t floor = floor_.load(std::memory_order_relaxed);
  if (time < floor) time = floor;
  if (time <= times->last) time = times->last + 1;
  ++times->exact;
  return (times->last = time) - start_ns_;
}

}  // namespace culprit
