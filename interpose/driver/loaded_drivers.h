// Every libcuda of the process. There is usually one, from the first CUDA call to the end; but a program may close its
// driver and open it again, or open a second one because the first cannot be used (the toolkit's stub, another folder).
//
//   first driver     the first libcuda in the loader's list: our exported hooks lead to it
//   other drivers    look-ups in them are answered with thunks (hooks/other_drivers.cpp), which name the driver for the
//                    call and go on to the same hook
//   life             the number of a driver from its load to its unload. Handles of two lives are distinct things, even
//                    if their values are the same.
//
// A driver that was unloaded is noticed at the next dlclose(), look-up or cuInit(), and at exit: see
// drop_closed_drivers(). A driver is never kept loaded by us: a program that reloads one expects a new one.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/hash.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/driver/driver_calls.h"

namespace culprit {

struct LoadedDriver {
  static constexpr std::uint32_t kRowSlots = 1024;
  static_assert(kApiCount * 2 < static_cast<int>(kRowSlots));

  void* addresses[kApiCount];  // first: dispatch_x86_64.S reads it. Of each row; nullptr = this driver lacks it
  Driver calls;
  ElfModule module;
  ModuleMark mark;
  std::uint16_t rows[kRowSlots];  // address -> row + 1; 0 = free
  std::atomic<bool> in_use;       // stored last
  std::atomic<bool> in_doubt;     // a thread is finding out whether it is still mapped
  std::uint8_t life;
  std::uint8_t thunks;            // the number of its set of thunks, 1 to kThunkSets; 0 = it has none
  bool by_name;                   // is_libcuda(); otherwise it only has a driver's functions
  std::atomic<bool> initialized;  // cuInit() succeeded
};

// Where the search for an address in `rows` begins.
inline std::uint32_t row_slot(const void* address) {
  return static_cast<std::uint32_t>(mix(reinterpret_cast<std::uint64_t>(address))) % LoadedDriver::kRowSlots;
}

constexpr int kMostDrivers = 3;
constexpr int kThunkSets = kMostDrivers - 1;

// The driver that the program called in the thread's current hook through a thunk; nullptr = the first one.
struct CalledDriver {
  LoadedDriver* driver;
  const void* frame;  // of the thunk
  bool kept;          // by DriverUse
};
extern CULPRIT_OWN __thread CalledDriver called_driver __attribute__((tls_model("initial-exec")));

extern "C" {
extern CULPRIT_OWN LoadedDriver* culprit_first_driver;  // nullptr = not known yet, or none
}
extern CULPRIT_OWN LoadedDriver loaded_drivers[kMostDrivers];

// The calling thread's driver; nullptr = none is known.
inline LoadedDriver* current_driver() {
  LoadedDriver* called = called_driver.driver;
  return CULPRIT_UNLIKELY(called != nullptr) ? called : __atomic_load_n(&culprit_first_driver, __ATOMIC_ACQUIRE);
}

// Whether there ever was a life other than 0, or a second driver. Then records are kept apart by life.
extern CULPRIT_OWN std::atomic<bool> several_lives;
inline bool has_several_lives() { return CULPRIT_UNLIKELY(several_lives.load(std::memory_order_acquire)); }

// The life of the calling thread's driver; 0 without one.
inline std::uint8_t current_life() {
  if (!has_several_lives()) return 0;
  const LoadedDriver* driver = current_driver();
  return driver == nullptr ? 0 : driver->life;
}

// Searches for the first driver. Returns whether there is one.
bool find_first_driver();

// Whether the calling thread is in a call of a driver's function, and so keeps that driver loaded. Set at load.
extern CULPRIT_OWN bool (*thread_calls_driver)();

// Work outside of hooks that may call the driver: at a thread's end, at exit. While it exists, driver() has functions
// if the driver is still mapped, and stays so. In a hook it does nothing. On the tracker's own stack only.
class DriverUse {
 public:
  DriverUse();
  ~DriverUse() {
    if (kept_) called_driver.kept = false;
  }
  DriverUse(const DriverUse&) = delete;
  DriverUse& operator=(const DriverUse&) = delete;

 private:
  KeepsModules keeps_;
  bool kept_ = false;
};

// Whether driver() has functions for the calling thread.
inline bool may_call_driver() { return called_driver.kept || thread_calls_driver == nullptr || thread_calls_driver(); }

// Whether two drivers were mapped at the same time.
bool has_several_drivers();

// The driver that a function belongs to. Looks at the module of an address that lies in no known driver: if it is a
// libcuda, or has a driver's functions under another name, it is one from now on. nullptr: no driver.
LoadedDriver* driver_at(const void* address);

// Whether an address lies in a driver, known or one too many.
bool lies_in_driver(const void* address);

// The driver of these thunks; nullptr = it was unloaded.
LoadedDriver* driver_of_thunks(int thunks);

// Calls visit(driver) for each driver that is mapped, until it returns true.
template <typename Visit>
bool any_driver(Visit visit) {
  for (LoadedDriver& driver : loaded_drivers) {
    if (driver.in_use.load(std::memory_order_acquire) && visit(driver)) return true;
  }
  return false;
}

// Looks which drivers are still mapped, and forgets the addresses of the others. Their lives are over: see
// take_ended_lives(). Thread-safe.
void drop_closed_drivers();

// Before cuInit() of the calling thread's driver: one that was initialized before and says that it is not was unloaded
// and loaded again at the same addresses, unnoticed. It begins a new life.
void notice_reloaded_driver();
void note_driver_initialized();

// The lives that ended since the last call: bit N of the set = life N.
struct LifeSet {
  std::uint64_t words[4];
  bool has(std::uint8_t life) const { return (words[life / 64] >> (life % 64) & 1) != 0; }
};
bool take_ended_lives(LifeSet* ended);
// Lives that take_ended_lives() would return.
bool has_ended_lives();

// Paths of drivers whose calls are not recorded, because too many are loaded: each with a NUL at its end.
struct UnhookedDrivers {
  static constexpr int kMostBytes = 2048;
  char paths[kMostBytes];
  int bytes;
};
const UnhookedDrivers& unhooked_drivers();

}  // namespace culprit
