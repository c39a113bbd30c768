// Contexts and devices: which ones a call concerns, and their records in the dump.
//
// The driver reuses handles, and a primary context keeps its handle across a reset; so all other code identifies a
// context by its number in the dump. Handles are those of the calling thread's driver.
#pragma once

#include <cstdint>

#include "interpose/driver/loaded_drivers.h"
#include "interpose/dump/dump_writer.h"

namespace culprit {

// The context and device in which something was made.
struct Place {
  std::uint32_t context = format::kNoIndex;
  std::uint8_t device = format::kNoDevice;
};

class ContextTable {
 public:
  // The place of a context by its handle. A context seen for the first time (it was made before recording began, or by
  // a call without a hook) is recorded without a stack if it is current. All functions here are thread-safe; all but
  // of_device() run on the tracker's own stack only.
  Place of_handle(CUcontext handle, std::uint64_t now_ns, DumpWriter& dump);

  // The place of a device: its live primary context, if known.
  Place of_device(CUdevice device, DumpWriter& dump);

  Place made(CUcontext handle, format::Kind kind, CUdevice device, std::uint16_t api, format::Ref stack,
             std::uint32_t thread, std::uint64_t now_ns, DumpWriter& dump);

  // Counts one retain or one release of the context with this handle. Returns the references left.
  int add_reference(CUcontext handle, int amount);

  // Returns the number of the live context with this handle and removes it from the table, so that a new context may
  // get the handle. Returns kNoIndex for an unknown handle. Follow with destroyed() or, when the driver refused,
  // revive().
  std::uint32_t take(CUcontext handle);
  std::uint32_t take_primary(CUdevice device);
  void destroyed(std::uint32_t index, std::uint16_t api, format::Ref stack, std::uint64_t now_ns, DumpWriter& dump);
  void revive(std::uint32_t index);

  // A second handle for a context (cuCtxFromGreenCtx).
  void add_alias(CUcontext alias, CUcontext handle);

  // Changes whenever a context is created or destroyed: cached lookups of handles are then stale.
  std::uint32_t epoch() const { return __atomic_load_n(&epoch_, __ATOMIC_ACQUIRE); }

  // The device's record; created on first use, with name, UUID and the first memory reading. nullptr when the dump is
  // full.
  format::DeviceRecord* device(CUdevice ordinal, DumpWriter& dump);
  format::DeviceRecord* known_device(std::uint8_t ordinal, DumpWriter& dump);

  // Stores the memory that making the live context with this handle took. Returns its number.
  std::uint32_t set_bytes(CUcontext handle, std::uint64_t bytes, std::uint16_t flags, DumpWriter& dump);

  // A live context of the calling thread's driver on this device, nullptr if none.
  CUcontext any_context_on(std::uint8_t device);

  // A driver was unloaded: its handles name no context any more, and the program did not destroy the contexts. Removes
  // one of them from the table, and returns its number; kNoIndex: there is none left.
  std::uint32_t take_of_lives(const LifeSet& lives);

  static constexpr int kMostDevices = 64;

  // The number of a device in the dump.
  static constexpr std::uint8_t number_of(CUdevice ordinal) {
    return ordinal < 0 || ordinal >= kMostDevices ? format::kNoDevice : static_cast<std::uint8_t>(ordinal);
  }

 private:
  static constexpr int kMostContexts = 2048;
  struct Entry {
    CUcontext handle;  // nullptr = taken or destroyed
    CUcontext alias;
    format::Ref record;
    std::uint32_t index;
    int references;
    std::uint8_t device;
    format::Kind kind;
    std::uint8_t life;  // of its driver
    bool alive;
    bool is_here() const { return alive && life == current_life(); }
    CUcontext taken_handle;  // for revive()
  };
  Place of_device_here(CUdevice device, DumpWriter& dump);
  Entry* find_locked(CUcontext handle);
  Entry* new_entry_locked(DumpWriter& dump);

  std::uint32_t epoch_;  // first, next to the other fields of Process that every call reads
  SpinLock lock_;
  int count_;
  Entry entries_[kMostContexts];
  format::Ref devices_[kMostDevices];
};

// Reads free and total memory of the device whose context is current to the calling thread. False when the driver
// refuses.
bool read_memory(std::uint64_t now_ns, format::MemoryReading* reading);

}  // namespace culprit
