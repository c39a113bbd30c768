#include "interpose/dump/contexts.h"

#include <cstring>

#include "interpose/base/own_stack.h"
#include "interpose/base/store_release.h"
#include "interpose/driver/driver.h"

namespace culprit {

using format::ContextRecord;
using format::DeviceRecord;
using format::Kind;
using format::Ref;

ContextTable::Entry* ContextTable::find_locked(CUcontext handle) {
  for (int i = count_ - 1; i >= 0; --i) {
    if (entries_[i].is_here() && (entries_[i].handle == handle || entries_[i].alias == handle)) return &entries_[i];
  }
  return nullptr;
}

// The slot of a destroyed context is reused only when all slots have been used, so that reports can name old contexts.
ContextTable::Entry* ContextTable::new_entry_locked(DumpWriter& dump) {
  if (count_ < kMostContexts) {
    Entry* entry = &entries_[count_];
    entry->record = dump.allocate_records(format::ChunkType::kContexts, 1, &entry->index);
    if (entry->record == 0) return nullptr;
    ++count_;
    return entry;
  }
  for (Entry& entry : entries_) {
    if (!entry.alive && entry.taken_handle == nullptr) return &entry;
  }
  return nullptr;
}

Place ContextTable::made(CUcontext handle, Kind kind, CUdevice ordinal, std::uint16_t api, Ref stack,
                         std::uint32_t thread, std::uint64_t now_ns, DumpWriter& dump) {
  if (ordinal >= 0) device(ordinal, dump);
  SpinGuard guard(lock_);
  Entry* entry = find_locked(handle);
  if (entry != nullptr && entry->kind == Kind::kPrimaryContext && kind == Kind::kPrimaryContext) {
    ++entry->references;
    return {entry->index, entry->device};
  }
  entry = new_entry_locked(dump);
  if (entry == nullptr) return {format::kNoIndex, number_of(ordinal)};
  entry->handle = handle;
  entry->alias = nullptr;
  entry->taken_handle = nullptr;
  entry->references = 1;
  entry->device = number_of(ordinal);
  entry->kind = kind;
  entry->life = current_life();
  entry->alive = true;
  auto* record = dump.at<ContextRecord>(entry->record);
  store_release(&record->state, format::ContextState::kEmpty);
  *record = {};
  record->stack = stack;
  record->handle = reinterpret_cast<std::uint64_t>(handle);
  record->created_ns = now_ns;
  record->device = entry->device;
  record->kind = kind;
  record->api = api;
  record->thread = thread;
  store_release(&record->state, format::ContextState::kAlive);
  __atomic_fetch_add(&epoch_, 1, __ATOMIC_RELEASE);
  return {entry->index, entry->device};
}

Place ContextTable::of_handle(CUcontext handle, std::uint64_t now_ns, DumpWriter& dump) {
  {
    SpinGuard guard(lock_);
    if (Entry* entry = find_locked(handle)) return {entry->index, entry->device};
  }
  // A new context. The driver reports the device of the current context only.
  CUcontext now_current = nullptr;
  CUdevice ordinal = -1;
  if (driver().cuCtxGetCurrent(&now_current) == CUDA_SUCCESS && now_current == handle)
    driver().cuCtxGetDevice(&ordinal);
  if (ordinal < 0) return {};
  // A primary context whose retain was not seen: retaining it for a moment gives its handle, without other effects.
  const Kind kind = RetainedPrimary(ordinal).get() == handle ? Kind::kPrimaryContext : Kind::kContext;
  return made(handle, kind, ordinal, 0, 0, format::kNoIndex, now_ns, dump);
}

Place ContextTable::of_device(CUdevice ordinal, DumpWriter& dump) {
  if (ordinal < 0 || ordinal >= kMostDevices) return {};
  return on_own_stack([&] { return of_device_here(ordinal, dump); });
}

Place ContextTable::of_device_here(CUdevice ordinal, DumpWriter& dump) {
  device(ordinal, dump);
  SpinGuard guard(lock_);
  for (int i = count_ - 1; i >= 0; --i) {
    const Entry& entry = entries_[i];
    if (entry.is_here() && entry.kind == Kind::kPrimaryContext && entry.device == ordinal)
      return {entry.index, entry.device};
  }
  return {format::kNoIndex, static_cast<std::uint8_t>(ordinal)};
}

int ContextTable::add_reference(CUcontext handle, int amount) {
  SpinGuard guard(lock_);
  Entry* entry = find_locked(handle);
  if (entry == nullptr) return 0;
  entry->references += amount;
  return entry->references;
}

std::uint32_t ContextTable::take(CUcontext handle) {
  SpinGuard guard(lock_);
  Entry* entry = find_locked(handle);
  if (entry == nullptr) return format::kNoIndex;
  entry->alive = false;
  entry->taken_handle = entry->handle;
  __atomic_fetch_add(&epoch_, 1, __ATOMIC_RELEASE);
  return entry->index;
}

std::uint32_t ContextTable::take_primary(CUdevice ordinal) {
  CUcontext handle = nullptr;
  {
    SpinGuard guard(lock_);
    for (int i = count_ - 1; i >= 0 && handle == nullptr; --i) {
      const Entry& entry = entries_[i];
      if (entry.is_here() && entry.kind == Kind::kPrimaryContext && entry.device == ordinal) handle = entry.handle;
    }
  }
  return handle == nullptr ? format::kNoIndex : take(handle);
}

void ContextTable::destroyed(std::uint32_t index, std::uint16_t api, Ref stack, std::uint64_t now_ns,
                             DumpWriter& dump) {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    if (entry.index != index) continue;
    entry.taken_handle = nullptr;
    auto* record = dump.at<ContextRecord>(entry.record);
    record->destroyed_ns = now_ns;
    record->destroy_stack = stack;
    record->destroy_api = api;
    store_release(&record->state, format::ContextState::kDestroyed);
    return;
  }
}

void ContextTable::revive(std::uint32_t index) {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    if (entry.index != index || entry.taken_handle == nullptr) continue;
    entry.alive = true;
    entry.taken_handle = nullptr;
    __atomic_fetch_add(&epoch_, 1, __ATOMIC_RELEASE);
  }
}

void ContextTable::add_alias(CUcontext alias, CUcontext handle) {
  SpinGuard guard(lock_);
  if (Entry* entry = find_locked(handle)) entry->alias = alias;
}

std::uint32_t ContextTable::set_bytes(CUcontext handle, std::uint64_t bytes, std::uint16_t flags, DumpWriter& dump) {
  SpinGuard guard(lock_);
  Entry* entry = find_locked(handle);
  if (entry == nullptr) return format::kNoIndex;
  auto* record = dump.at<ContextRecord>(entry->record);
  __atomic_store_n(&record->bytes, bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&record->flags, flags, __ATOMIC_RELEASE);
  return entry->index;
}

CUcontext ContextTable::any_context_on(std::uint8_t wanted) {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    if (entries_[i].is_here() && entries_[i].device == wanted && entries_[i].kind != Kind::kGreenContext)
      return entries_[i].handle;
  }
  return nullptr;
}

std::uint32_t ContextTable::take_of_lives(const LifeSet& lives) {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    if (!entry.alive || !lives.has(entry.life)) continue;
    entry.alive = false;
    __atomic_fetch_add(&epoch_, 1, __ATOMIC_RELEASE);
    return entry.index;
  }
  return format::kNoIndex;
}

DeviceRecord* ContextTable::known_device(std::uint8_t ordinal, DumpWriter& dump) {
  if (ordinal >= kMostDevices) return nullptr;
  Ref ref = __atomic_load_n(&devices_[ordinal], __ATOMIC_ACQUIRE);
  return ref == 0 ? nullptr : dump.at<DeviceRecord>(ref);
}

DeviceRecord* ContextTable::device(CUdevice ordinal, DumpWriter& dump) {
  if (ordinal < 0 || ordinal >= kMostDevices) return nullptr;
  if (DeviceRecord* known = known_device(static_cast<std::uint8_t>(ordinal), dump)) return known;

  DeviceRecord fields = {};
  fields.ordinal = static_cast<std::uint32_t>(ordinal);
  const Driver& call = driver();
  CUuuid uuid = {};
  // _v2 returns the UUID of the MIG instance, if any, the first version always that of the whole GPU: they differ
  // exactly under MIG.
  if (call.cuDeviceGetUuid_v2(&uuid, ordinal) == CUDA_SUCCESS) {
    std::memcpy(fields.uuid, &uuid, sizeof(fields.uuid));
    CUuuid whole = {};
    if (call.cuDeviceGetUuid(&whole, ordinal) == CUDA_SUCCESS && std::memcmp(&whole, &uuid, sizeof(uuid)) != 0) {
      fields.flags |= format::kDeviceMig;
    }
  } else if (call.cuDeviceGetUuid(&uuid, ordinal) == CUDA_SUCCESS) {
    std::memcpy(fields.uuid, &uuid, sizeof(fields.uuid));
  }
  call.cuDeviceGetName(fields.name, sizeof(fields.name) - 1, ordinal);

  SpinGuard guard(lock_);
  if (DeviceRecord* known = known_device(static_cast<std::uint8_t>(ordinal), dump)) return known;
  Ref ref = dump.allocate_records(format::ChunkType::kDevices, 1, nullptr);
  if (ref == 0) return nullptr;
  auto* record = dump.at<DeviceRecord>(ref);
  *record = fields;
  __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
  __atomic_store_n(&devices_[ordinal], ref, __ATOMIC_RELEASE);
  return record;
}

bool read_memory(std::uint64_t now_ns, format::MemoryReading* reading) {
  const DriverUse use;
  std::size_t free_bytes = 0, total_bytes = 0;
  if (!driver_ready() || driver().cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) return false;
  if (total_bytes == 0 || free_bytes > total_bytes) return false;  // the driver stored nothing
  *reading = {now_ns, free_bytes, total_bytes};
  return true;
}

}  // namespace culprit
