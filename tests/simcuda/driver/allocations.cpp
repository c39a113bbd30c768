// The tables of live memory, whatever function made it.
#include <cstring>

#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/own_memory.h"
#include "tests/simcuda/driver/pools.h"
#include "tests/simcuda/driver/vmm.h"

namespace simcuda {
namespace {

Allocation* containing(AllocationMap& map, std::uint64_t address) {
  auto after = map.upper_bound(address);
  if (after == map.begin()) return nullptr;
  Allocation& allocation = std::prev(after)->second;
  return address - allocation.address < allocation.bytes ? &allocation : nullptr;
}

// The device of these addresses: the given one first, since several may share them.
Device* device_of(DriverState& state, int device, std::uint64_t address) {
  if (device >= 0 && state.devices[device]->space->contains(address)) return state.devices[device].get();
  for (auto& candidate : state.devices) {
    if (candidate->space->contains(address)) return candidate.get();
  }
  return nullptr;
}

AllocationMap& map_of(DriverState& state, int device, std::uint64_t address) {
  if (Device* found = device_of(state, device, address)) return found->memory;
  return state.managed_space->contains(address) ? state.managed : state.host;
}

}  // namespace

Allocation* find_allocation(DriverState& state, int device, std::uint64_t address) {
  AllocationMap& map = map_of(state, device, address);
  auto found = map.find(address);
  return found == map.end() ? nullptr : &found->second;
}

Allocation* find_containing(DriverState& state, int device, std::uint64_t address) {
  return containing(map_of(state, device, address), address);
}

Allocation* add_allocation(DriverState& state, Device& device, MemoryKind kind, std::size_t bytes,
                           std::size_t alignment, std::size_t charged, Context* context) {
  if (charged > device.available() && !make_room(state, device, charged)) return nullptr;
  std::uint64_t address = device.space->allocate(bytes, alignment);
  if (address == 0) return nullptr;
  device.used += charged;
  Allocation& allocation = device.memory[address];
  allocation.address = address;
  allocation.range = address;
  allocation.bytes = bytes;
  allocation.reserved = bytes;
  allocation.charged = charged;
  allocation.id = state.next_id++;
  allocation.kind = kind;
  allocation.device = device.ordinal;
  allocation.context = context;
  return &allocation;
}

Allocation* add_alias(DriverState& state, Device& device, MemoryKind kind, std::uint64_t source, std::size_t bytes,
                      Context* context) {
  std::uint64_t page = source / kPageBytes * kPageBytes;
  std::size_t offset = source - page;
  Allocation* added = add_allocation(state, device, kind, round_up(offset + bytes, kPageBytes), kPageBytes, 0, context);
  if (added == nullptr) return nullptr;
  device.space->alias(added->range, device.space->host(page), added->reserved);
  // The caller gets the address inside the page, and the table uses that address, too.
  Allocation moved = *added;
  device.memory.erase(moved.range);
  moved.address += offset;
  moved.bytes = bytes;
  return &(device.memory[moved.address] = moved);
}

void release_allocation(DriverState& state, Allocation& allocation) {
  Device& device = *state.devices[allocation.device];
  const bool in_blocks = allocation.kind == MemoryKind::kDevice;
  device.used -= in_blocks ? block_bytes(state, device, allocation.bytes, true) : allocation.charged;
  std::uint64_t address = allocation.address;
  switch (allocation.kind) {
    case MemoryKind::kHost:
      unmap_shared(reinterpret_cast<void*>(address), round_up(allocation.bytes, kPageBytes));
      state.host.erase(address);
      return;
    case MemoryKind::kRegisteredHost:
      state.host.erase(address);
      return;
    case MemoryKind::kManaged:
      state.managed_space->free(address, allocation.reserved);
      state.managed.erase(address);
      return;
    case MemoryKind::kVmmMapping:
      end_mapping(state, allocation);
      return;
    case MemoryKind::kPool: {
      const bool on_host = allocation.pool->on_host;
      note_pool_free(state, *allocation.pool, allocation.bytes);
      if (!on_host) break;
      ::free(reinterpret_cast<void*>(address));
      state.host.erase(address);
      return;
    }
    case MemoryKind::kGraph:
      // The addresses belong to the graph's node.
      device.graph_used -= allocation.bytes;
      device.memory.erase(address);
      return;
    case MemoryKind::kPoolImport:
    case MemoryKind::kIpcImport:
    case MemoryKind::kExternalBuffer:
      if (allocation.reserved != 0) device.space->unalias(allocation.range, allocation.reserved);
      break;
    case MemoryKind::kDevice:
    case MemoryKind::kModuleGlobal:
      break;
  }
  if (allocation.reserved != 0) device.space->free(allocation.range, allocation.reserved);
  device.memory.erase(address);
}

bool is_device_address(const DriverState& state, std::uint64_t address) {
  for (auto& device : state.devices) {
    if (device->space->contains(address)) return true;
  }
  return false;
}

char* host_memory(DriverState& state, int device, std::uint64_t address, std::size_t bytes) {
  Device* owner = device_of(state, device, address);
  if (owner == nullptr && !state.managed_space->contains(address)) return reinterpret_cast<char*>(address);
  AllocationMap& map = owner != nullptr ? owner->memory : state.managed;
  // A range may run over several mappings (cuMemMap) that lie side by side.
  for (std::uint64_t at = address, end = address + bytes; at < end;) {
    Allocation* allocation = containing(map, at);
    if (allocation == nullptr || !allocation->readable) return nullptr;
    at = allocation->address + allocation->bytes;
  }
  return owner != nullptr ? owner->space->host(address) : state.managed_space->host(address);
}

bool make_room(DriverState& state, Device& device, std::size_t bytes) {
  for (Pool* pool : device.pools) {
    if (device.available() >= bytes) break;
    trim_pool(state, *pool, 0);
  }
  return device.available() >= bytes;
}

}  // namespace simcuda
