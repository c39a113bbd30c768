#include "interpose/base/clock.h"

#include <elf.h>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/machine.h"
#include "interpose/base/raw_calls.h"
#include "interpose/base/restrictions.h"

namespace culprit {
namespace {

using Function = int (*)(clockid_t, struct timespec*);

int system_clock(clockid_t clock, struct timespec* time) {
  return static_cast<int>(system_call(SYS_clock_gettime, clock, time));
}

// The vDSO's function if there is one: it cannot be interposed.
Function find_function() {
  const std::uint64_t begin = auxiliary_value(AT_SYSINFO_EHDR);
  if (begin == 0) return system_clock;
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(begin);
  struct dl_phdr_info info = {};
  info.dlpi_phdr = reinterpret_cast<const ElfW(Phdr)*>(begin + header->e_phoff);
  info.dlpi_phnum = header->e_phnum;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_LOAD && info.dlpi_phdr[i].p_offset == 0)
      info.dlpi_addr = begin - info.dlpi_phdr[i].p_vaddr;
  }
  ElfModule module;
  std::uint64_t address = describe_module(info, &module) ? find_symbol(module, kClockGettime) : 0;
  return address != 0 ? reinterpret_cast<Function>(address) : system_clock;
}

// Concurrent searches find the same.
Function clock_function() {
  static std::atomic<Function> known;
  Function function = known.load(std::memory_order_relaxed);
  if (function != nullptr) return function;
  known.store(system_clock, std::memory_order_relaxed);  // the search itself may read the clock
  function = find_function();
  known.store(function, std::memory_order_relaxed);
  return function;
}

}  // namespace

std::uint64_t clock_ns(clockid_t clock) {
  struct timespec time = {};
  const bool ticks = clock == CLOCK_MONOTONIC_COARSE;
  (ticks || calls_restricted() ? clock_function() : system_clock)(clock, &time);
  return nanoseconds(time);
}

void Clock::start() {
  function_ = clock_function();
  start_ns_ = clock_ns(CLOCK_MONOTONIC);
  floor_.store(start_ns_, std::memory_order_relaxed);
  // Where the vDSO has no coarse clock (gVisor, valgrind, vdso=0) it is a system call, like the exact one here.
  auto cost_of = [](auto work) {
    return least_time(
        4, [] { return clock_ns(CLOCK_MONOTONIC); }, work);
  };
  const std::uint64_t of_ticks = cost_of([&] {
    for (int i = 0; i < 16; ++i) read(CLOCK_MONOTONIC_COARSE);
  });
  const std::uint64_t of_exact = cost_of([] {
    for (int i = 0; i < 16; ++i) clock_ns(CLOCK_MONOTONIC);
  });
  ticks_are_cheap_ = of_ticks * 2 < of_exact;
}

std::uint64_t Clock::now() {
  std::uint64_t time = clock_ns(CLOCK_MONOTONIC);
  std::uint64_t floor = floor_.load(std::memory_order_relaxed);
  while (floor < time && !floor_.compare_exchange_weak(floor, time, std::memory_order_relaxed)) {
  }
  return time - start_ns_;
}

void Clock::make_next_exact(EventTimes* times) {
  if (!ticks_are_cheap_) return;
  const std::uint64_t time = clock_ns(CLOCK_MONOTONIC);
  if (time > times->last) times->last = time - 1;
}

// By the vDSO, which gVisor has for this clock only.
std::uint64_t Clock::exact_event(EventTimes* times) { return later_event(times, read(CLOCK_MONOTONIC)); }

}  // namespace culprit
