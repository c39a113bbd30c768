#include "interpose/base/kernel_clock.h"

#include <elf.h>

#include <atomic>

#include "interpose/base/auxiliary.h"
#include "interpose/base/elf_symbols.h"
#include "interpose/base/machine.h"
#include "interpose/base/raw_calls.h"

namespace culprit {

int system_clock(clockid_t clock, struct timespec* time) {
  return static_cast<int>(system_call(SYS_clock_gettime, clock, time));
}

namespace {

// The vDSO's function if there is one: it cannot be interposed.
ClockFunction find_function() {
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
  return address != 0 ? reinterpret_cast<ClockFunction>(address) : system_clock;
}

}  // namespace

// Concurrent searches find the same.
ClockFunction clock_function() {
  static std::atomic<ClockFunction> known;
  ClockFunction function = known.load(std::memory_order_relaxed);
  if (function != nullptr) return function;
  known.store(system_clock, std::memory_order_relaxed);  // the search itself may read the clock
  function = find_function();
  known.store(function, std::memory_order_relaxed);
  return function;
}

std::uint64_t tick_ns() {
  struct timespec time = {};
  clock_function()(CLOCK_MONOTONIC_COARSE, &time);
  return nanoseconds(time);
}

}  // namespace culprit
