// What a thread needs at hand, in one initial-exec thread-local variable: the default TLS model calls __tls_get_addr,
// which may call malloc, which the target may have replaced by something that calls CUDA. It uses up static TLS: keep
// it small.
#pragma once

#include <cstdint>

#include "interpose/contexts.h"

namespace culprit {

class StackMemo;

struct ThreadState {
  // Stack pointer of the outermost hook that this thread is in, nullptr = in none. A hook entered below it is nested:
  // the driver, or another interposer, calling back. An address and not a flag, because an exception or a cancellation
  // that leaves through a hook can not clear a flag; a later hook higher on the stack sees that the old one is gone.
  const char* outermost_hook;
  bool in_tracker;                   // inside our own bookkeeping: a signal handler's CUDA call goes through unrecorded
  std::uint32_t generation;          // of the Process that the rest belongs to: a fork child starts anew
  std::uint32_t index;               // in the dump's threads
  StackMemo* memo;                   // nullptr = none
  format::ThreadCounters* counters;  // nullptr = no room in the dump
  void* runtime_free;                // runtime_frees.cpp: what free_at_exit() has to call
  // Device memory that this thread made and ended, not yet added to the device's sum.
  std::int64_t live_delta;
  std::uint8_t live_device;
  // The context that was current at the last event. Valid while the contexts' epoch stands.
  CUcontext context;
  std::uint32_t context_epoch;
  Place context_place;
};

extern thread_local ThreadState thread_state __attribute__((tls_model("initial-exec")));

}  // namespace culprit
