// The driver's addresses, wherever this process keeps them: replaced by our hooks', and put back.
//
// Every CUDA runtime and framework keeps the driver's entry points as plain words in writable memory: data of modules,
// heap (measured for the static and the shared cudart, CuPy, ctypes, libtorch). A word that equals the address of a
// function that we hook is taken for one. Modules that are linked to libcuda have them in slots that the loader fills,
// some of them read-only by now, some not filled yet: those are found by their names.
//
// Left alone: libcuda's own memory, CUPTI's, the debugger's and profilers', and ours. Stacks are not: a table of
// function pointers in main() lies on one. A word there that is about to be called leads to the same function by way
// of our hook; a hook that is just calling the driver, and finds its target replaced by itself, sees that it is nested
// and goes on to the driver.
//
// A word is stored whole (aligned, compare and swap), and only if it still holds what was found there. Memory that
// another thread unmaps between the look and the store, a microsecond later, would be a fault; it would have to be
// memory with a pointer to the driver in it.
#pragma once

#include <cstdint>

#include "interpose/base/loader_modules.h"
#include "interpose/base/memory_map.h"
#include "interpose/base/spin_lock.h"

namespace culprit {

struct WordsResult {
  std::uint32_t words = 0;  // in writable memory
  std::uint32_t slots = 0;  // that the loader fills
  std::uint64_t searched_bytes = 0;
  std::uint64_t unsearched_bytes = 0;  // time was up
};

// Not thread-safe, except for look_at_new_modules().
class AddressWords {
 public:
  // From the driver to our hooks. Gives up the search of the rest when CLOCK_MONOTONIC passes `deadline_ns`; the data
  // of modules comes first. False when this process's memory cannot be looked at: nothing is changed then.
  bool replace(std::uint64_t deadline_ns, WordsResult* result);

  // Back: also what was given out or copied meanwhile.
  bool put_back(std::uint64_t deadline_ns, WordsResult* result);

  // Slots of modules that were loaded since. Thread-safe, changes errno.
  void look_at_new_modules();

 private:
  struct Slot {
    std::uint64_t* place;
    std::uint64_t original;
    std::uint64_t ours;
  };
  static constexpr std::uint32_t kMostSlots = 1 << 20;
  static constexpr int kMostModules = 4096;
  struct ModuleWalk;
  static int visit_module(struct dl_phdr_info* info, std::size_t size, void* walk);
  void replace_slot(const MemoryMap& map, std::uint64_t place, std::uint64_t original, std::uint64_t ours);
  void walk_modules(const MemoryMap& map);

  Slot* slots_ = nullptr;  // since replace()
  std::uint32_t slot_count_ = 0;
  std::uint64_t known_modules_[kMostModules] = {};  // load biases of those whose slots were looked at
  int known_count_ = 0;
  ModuleListEnd list_end_ = {};  // when slots were looked at
  SpinLock lock_;
};

}  // namespace culprit
