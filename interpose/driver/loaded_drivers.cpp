#include "interpose/driver/loaded_drivers.h"

#include <unistd.h>

#include <cstring>
#include <initializer_list>

#include "interpose/base/placement.h"
#include "interpose/driver/hook_targets.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/os.h"
#include "interpose/system/own_stack.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

__thread CalledDriver called_driver;
LoadedDriver* culprit_first_driver = nullptr;
CULPRIT_AT_LOAD bool (*thread_calls_driver)() = nullptr;
std::atomic<bool> several_lives;
LoadedDriver loaded_drivers[kMostDrivers];

namespace {

LoadedDriver* thunk_drivers[kThunkSets + 1];
UnhookedDrivers unhooked;

std::atomic<bool> several_drivers;
std::uint8_t next_life;
std::atomic<std::uint64_t> ended_lives[4];

// Held on the tracker's own stack only. A fork child may inherit it from a thread that it does not have.
class DriversLock {
 public:
  DriversLock() {
    const auto pid = static_cast<std::uint32_t>(getpid());
    while (!lock_.try_lock_for(kWaitMs, pid)) {
      if (lock_.is_held_by(pid)) {
        sleep_microseconds(1000);
      } else {
        lock_.unlock();  // the parent's
      }
    }
  }
  ~DriversLock() { lock_.unlock(); }
  DriversLock(const DriversLock&) = delete;
  DriversLock& operator=(const DriversLock&) = delete;

 private:
  static constexpr std::uint32_t kWaitMs = 20;
  static SpinLock lock_;
};
SpinLock DriversLock::lock_;

// A driver under another name.
bool has_driver_functions(const ElfModule& module) {
  for (const char* name : {"cuInit", "cuDeviceGet", "cuDeviceGetCount", "cuMemAlloc_v2", "cuMemFree_v2"}) {
    if (find_symbol(module, name) == 0) return false;
  }
  return !is_own_module(module) && !is_other_interposer(module);
}

// The mark of the module that is mapped at this address. Where the loader's list has to be walked for it, another
// thread's dlclose() of another module may cut the walk off.
bool mark_at(const void* address, ModuleMark* mark) {
  for (int i = 0; i < 3; ++i) {
    if (find_module_mark(reinterpret_cast<std::uint64_t>(address), mark)) return true;
  }
  return false;
}

bool is_still_mapped(const LoadedDriver& driver) {
  ModuleMark now;
  return mark_at(driver.module.dynamic, &now) && now == driver.mark;
}

bool is_ended(std::uint8_t life) {
  return (ended_lives[life / 64].load(std::memory_order_relaxed) >> (life % 64) & 1) != 0;
}

// Passes over lives whose records are still to be dealt with.
std::uint8_t begin_life() {
  std::uint8_t life = next_life;
  for (int i = 0; i < 255 && is_ended(life); ++i) ++life;
  next_life = static_cast<std::uint8_t>(life + 1);
  if (life != 0) several_lives.store(true, std::memory_order_release);
  return life;
}

void end_life(const LoadedDriver& driver) {
  ended_lives[driver.life / 64].fetch_or(std::uint64_t{1} << (driver.life % 64), std::memory_order_release);
}

void fill_rows(LoadedDriver* driver) {
  for (std::uint16_t& row : driver->rows) row = 0;
  for (int i = 0; i < kApiCount; ++i) {
    if (driver->addresses[i] == nullptr) continue;
    std::uint32_t slot = row_slot(driver->addresses[i]);
    while (driver->rows[slot] != 0 && driver->addresses[driver->rows[slot] - 1] != driver->addresses[i])
      slot = (slot + 1) % LoadedDriver::kRowSlots;
    driver->rows[slot] = static_cast<std::uint16_t>(i + 1);
  }
}

void store(void** place, void* value) { __atomic_store_n(place, value, __ATOMIC_RELAXED); }

bool has_others_than(const LoadedDriver* first) {
  return any_driver([&](const LoadedDriver& driver) { return &driver != first; });
}

static_assert(offsetof(LoadedDriver, addresses) == 0);

void connect_hooks_to(const LoadedDriver* first, bool others) {
  connect_hooks(first == nullptr ? nullptr : first->addresses, others);
}

// A thread that is past these addresses holds the driver open.
void retire(LoadedDriver* driver) {
  driver->in_use.store(false, std::memory_order_release);
  for (void*& address : driver->addresses) store(&address, nullptr);
#define CULPRIT_FORGET(name) driver->calls.name.set(0);
  CULPRIT_DRIVER_CALLS(CULPRIT_FORGET)
#undef CULPRIT_FORGET
  if (culprit_first_driver == driver) __atomic_store_n(&culprit_first_driver, nullptr, __ATOMIC_RELEASE);
  if (driver->thunks != 0) __atomic_store_n(&thunk_drivers[driver->thunks], nullptr, __ATOMIC_RELEASE);
}

void drop_closed_here() {
  bool any = false;
  for (LoadedDriver& driver : loaded_drivers) {
    if (!driver.in_use.load(std::memory_order_relaxed)) continue;
    // A thread may just have opened the library again, at the same addresses: driver_at() then either sees the doubt,
    // or found the library before it is looked for here.
    driver.in_doubt.store(true);
    if (!is_still_mapped(driver)) {
      end_life(driver);
      retire(&driver);
      any = true;
    }
    driver.in_doubt.store(false);
  }
  if (any) connect_hooks_to(culprit_first_driver, has_others_than(culprit_first_driver));
}

void note_unhooked(const char* path) {
  const int length = static_cast<int>(std::strlen(path)) + 1;
  for (int at = 0; at < unhooked.bytes; at += static_cast<int>(std::strlen(unhooked.paths + at)) + 1) {
    if (std::strcmp(unhooked.paths + at, path) == 0) return;
  }
  if (length > UnhookedDrivers::kMostBytes - unhooked.bytes) return;
  std::memcpy(unhooked.paths + unhooked.bytes, path, static_cast<std::size_t>(length));
  __atomic_store_n(&unhooked.bytes, unhooked.bytes + length, __ATOMIC_RELEASE);
}

// The program calls a driver that is not the first one. nullptr = too many are loaded.
bool give_thunks(LoadedDriver* driver) {
  for (int i = 1; i <= kThunkSets; ++i) {
    if (thunk_drivers[i] != nullptr) continue;
    driver->thunks = static_cast<std::uint8_t>(i);
    __atomic_store_n(&thunk_drivers[i], driver, __ATOMIC_RELEASE);
    several_drivers.store(true, std::memory_order_release);
    several_lives.store(true, std::memory_order_release);
    return true;
  }
  return false;
}

LoadedDriver* free_place() {
  for (LoadedDriver& driver : loaded_drivers) {
    if (!driver.in_use.load(std::memory_order_relaxed)) return &driver;
  }
  return nullptr;
}

// With the lock. `as_first`: calls of our exported functions lead there.
LoadedDriver* learn(const ElfModule& module, const char* path, bool as_first) {
  ModuleMark mark;
  if (!mark_at(module.dynamic, &mark)) return nullptr;
  for (LoadedDriver& driver : loaded_drivers) {
    if (driver.in_use.load(std::memory_order_relaxed) && driver.mark == mark) {
      if (!as_first) return &driver;
      __atomic_store_n(&culprit_first_driver, &driver, __ATOMIC_RELEASE);
      connect_hooks_to(&driver, has_others_than(&driver));
      return &driver;
    }
  }
  LoadedDriver* driver = free_place();
  if (driver == nullptr) {
    note_unhooked(path);
    return nullptr;
  }
  driver->module = module;
  driver->mark = mark;
  driver->thunks = 0;
  driver->by_name = is_libcuda(module, path);
  driver->initialized.store(false, std::memory_order_relaxed);
  // A library with a driver's functions, which turns out to lead to a libcuda: from now on libcuda is called directly.
  LoadedDriver* first = culprit_first_driver;
  const bool replaces = first != nullptr && !first->by_name && driver->by_name && !as_first;
  if (!as_first && !replaces && !give_thunks(driver)) {
    note_unhooked(path);
    return nullptr;
  }
  driver->life = replaces ? first->life : begin_life();
  for (int i = 0; i < kApiCount; ++i) {
    const Api api = static_cast<Api>(i);
    store(&driver->addresses[i], reinterpret_cast<void*>(find_symbol(module, api_name(api), api_hash(api))));
  }
#define CULPRIT_RESOLVE(name) driver->calls.name.set(find_symbol(module, #name));
  CULPRIT_DRIVER_CALLS(CULPRIT_RESOLVE)
#undef CULPRIT_RESOLVE
  fill_rows(driver);
  if (replaces) retire(first);
  if (as_first || replaces) __atomic_store_n(&culprit_first_driver, driver, __ATOMIC_RELEASE);
  // The hooks lead there before another thread can find it.
  connect_hooks_to(culprit_first_driver, culprit_first_driver != driver || has_others_than(driver));
  driver->in_use.store(true, std::memory_order_release);
  return driver;
}

// Only what is held open may be read while other threads close libraries. `tries`: how often to wait for them.
bool find_first_driver_here(int tries) {
  if (culprit_first_driver != nullptr) return true;
  if (tries == 0) return false;
  const KeepsModules keeps;
  if (!keeps.done()) return find_first_driver_here(tries - 1);
  for (const bool by_name : {true, false}) {
    any_module([&](const ElfModule& module, const struct dl_phdr_info& info) {
      const bool wanted = by_name ? is_libcuda(module, info.dlpi_name) : has_driver_functions(module);
      return wanted && learn(module, info.dlpi_name, true) != nullptr;
    });
    if (culprit_first_driver != nullptr) return true;
  }
  return false;
}

// The module of an address that the caller keeps mapped, if it is a driver.
bool find_driver_module(std::uint64_t address, ElfModule* module, const char** path) {
  struct dl_phdr_info info;
  if (!find_module(address, &info) || !describe_module(info, module)) return false;
  *path = info.dlpi_name != nullptr ? info.dlpi_name : "";
  return is_libcuda(*module, *path) || has_driver_functions(*module);
}

}  // namespace

bool find_first_driver() {
  return on_own_stack([] {
    DriversLock lock;
    drop_closed_here();
    return find_first_driver_here(20);
  });
}

DriverUse::DriverUse() : keeps_(!may_call_driver()) {
  const LoadedDriver* driver = current_driver();
  if (!keeps_.done() || driver == nullptr || !is_still_mapped(*driver)) return;
  called_driver.kept = kept_ = true;
}

CULPRIT_HOT bool has_several_drivers() { return several_drivers.load(std::memory_order_acquire); }

LoadedDriver* driver_at(const void* address) {
  const auto wanted = reinterpret_cast<std::uint64_t>(address);
  for (LoadedDriver& driver : loaded_drivers) {
    if (!driver.in_use.load(std::memory_order_acquire) || !driver.module.contains(wanted)) continue;
    ModuleMark now;
    if (mark_at(address, &now) && now == driver.mark && !driver.in_doubt.load() && driver.in_use.load()) return &driver;
  }
  return on_own_stack([&] {
    DriversLock lock;
    drop_closed_here();
    find_first_driver_here(1);  // the first in the loader's list, whichever is called first
    ElfModule module;
    const char* path = nullptr;
    return find_driver_module(wanted, &module, &path) ? learn(module, path, false) : nullptr;
  });
}

bool lies_in_driver(const void* address) {
  return on_own_stack([&] {
    ElfModule module;
    const char* path = nullptr;
    return find_driver_module(reinterpret_cast<std::uint64_t>(address), &module, &path);
  });
}

LoadedDriver* driver_of_thunks(int thunks) { return __atomic_load_n(&thunk_drivers[thunks], __ATOMIC_ACQUIRE); }

void drop_closed_drivers() {
  if (!any_driver([](const LoadedDriver& driver) { return !is_still_mapped(driver); })) return;
  on_own_stack([] {
    DriversLock lock;
    drop_closed_here();
  });
}

void notice_reloaded_driver() {
  LoadedDriver* driver = current_driver();
  if (driver == nullptr || !driver->initialized.load(std::memory_order_acquire)) return;
  CUcontext context = nullptr;
  if (driver->calls.cuCtxGetCurrent(&context) != CUDA_ERROR_NOT_INITIALIZED) return;
  on_own_stack([&] {
    DriversLock lock;
    if (driver->calls.cuCtxGetCurrent(&context) != CUDA_ERROR_NOT_INITIALIZED) return;  // another thread was first
    if (!driver->initialized.exchange(false)) return;
    end_life(*driver);
    driver->life = begin_life();
  });
}

void note_driver_initialized() {
  if (LoadedDriver* driver = current_driver()) driver->initialized.store(true, std::memory_order_release);
}

bool has_ended_lives() {
  for (const std::atomic<std::uint64_t>& word : ended_lives) {
    if (word.load(std::memory_order_acquire) != 0) return true;
  }
  return false;
}

bool take_ended_lives(LifeSet* ended) {
  bool any = false;
  for (int i = 0; i < 4; ++i) {
    ended->words[i] = ended_lives[i].exchange(0);
    any = any || ended->words[i] != 0;
  }
  return any;
}

const UnhookedDrivers& unhooked_drivers() { return unhooked; }

}  // namespace culprit
