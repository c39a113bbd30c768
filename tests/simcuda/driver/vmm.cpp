#include "tests/simcuda/driver/vmm.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "tests/simcuda/driver/call.h"

namespace simcuda {
namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;

bool is_multiple(std::uint64_t value) { return value % kGranularity == 0; }

Allocation* containing(AllocationMap& map, std::uint64_t address) {
  auto after = map.upper_bound(address);
  if (after == map.begin()) return nullptr;
  Allocation& found = std::prev(after)->second;
  return address - found.address < found.bytes ? &found : nullptr;
}

// The device in whose range the address is reserved; `reservation` receives the reservation.
Device* find_reserved(Call& call, std::uint64_t address, Allocation** reservation) {
  for (auto& device : call.state().devices) {
    *reservation = containing(device->reservations, address);
    if (*reservation != nullptr) return device.get();
  }
  return nullptr;
}

// The first mapping in [address, address + bytes), and whether mappings cover all of it without a gap.
bool covered_by_mappings(Device& device, std::uint64_t address, std::size_t bytes) {
  for (std::uint64_t at = address; at < address + bytes;) {
    Allocation* mapping = containing(device.memory, at);
    if (mapping == nullptr || mapping->kind != MemoryKind::kVmmMapping) return false;
    at = mapping->address + mapping->bytes;
  }
  return true;
}

// The calling thread's device when it has one, else the first: cuMemAddressReserve needs no context.
Device& preferred_device(Call& call) {
  ThreadState& thread = thread_state();
  if (!thread.stack.empty() && is_alive(call.state(), thread.stack.back())) {
    return *call.state().devices[thread.stack.back().context->device];
  }
  return *call.state().devices[0];
}

// nullptr: there is no memory left. `device`: nullptr for host memory.
Physical* make_physical(Call& call, std::size_t bytes, const CUmemAllocationProp& properties, Device* device) {
  if (device != nullptr && bytes > device->available() && !make_room(call.state(), *device, bytes)) return nullptr;
  void* backing = map_shared(bytes);
  if (backing == nullptr) return nullptr;
  Physical* physical = call.state().add(new Physical);
  physical->properties = properties;
  physical->bytes = bytes;
  physical->backing = backing;
  if (device != nullptr) {
    physical->device = device->ordinal;
    device->used += bytes;
  }
  return physical;
}

// Memory of another process: as much of this one's.
Physical* import_foreign_memory(Call& call, int descriptor) {
  SharedDescription shared;
  if (!read_description(descriptor, &shared) || shared.pool != 0 || shared.bytes == 0) return nullptr;
  return make_physical(call, shared.bytes, shared.properties, call.device(static_cast<int>(shared.device)));
}

void end_if_unused(DriverState& state, Physical& physical) {
  if (physical.references == 0 && physical.mappings == 0) state.destroy(&physical);
}

}  // namespace

void Physical::release(DriverState& state) {
  if (device >= 0) state.devices[device]->used -= bytes;
  if (backing != nullptr) unmap_shared(backing, bytes);
  forget_exports(state, this);
}

int make_shareable_descriptor(const SharedDescription& description, ino_t* inode) {
  // A memory file: its inode is an identity that survives dup() and passing through a socket. NVIDIA's descriptors are
  // all of one device file.
  int descriptor = memfd_create("simcuda", MFD_CLOEXEC);
  if (descriptor < 0) return descriptor;
  *inode = descriptor_inode(descriptor);
  if (pwrite(descriptor, &description, sizeof(description), 0) == sizeof(description)) return descriptor;
  close(descriptor);
  return -1;
}

bool read_description(int descriptor, SharedDescription* description) {
  return pread(descriptor, description, sizeof(*description), 0) == sizeof(*description) &&
         description->magic == SharedDescription().magic;
}

ino_t descriptor_inode(int descriptor) {
  struct stat info;
  return fstat(descriptor, &info) == 0 ? info.st_ino : 0;
}

void forget_exports(DriverState& state, const Object* object) {
  for (auto entry = state.exported.begin(); entry != state.exported.end();) {
    entry = entry->second == object ? state.exported.erase(entry) : std::next(entry);
  }
}

void end_mapping(DriverState& state, Allocation& mapping) {
  Device& device = *state.devices[mapping.device];
  Physical* physical = mapping.physical;
  device.space->unalias(mapping.address, mapping.bytes);
  device.memory.erase(mapping.address);
  if (physical != nullptr) {
    --physical->mappings;
    end_if_unused(state, *physical);
  }
}

}  // namespace simcuda

using simcuda::Allocation;
using simcuda::Call;
using simcuda::Device;
using simcuda::MemoryKind;
using simcuda::Multicast;
using simcuda::Physical;

SIM(cuMemGetAllocationGranularity)
(std::size_t* granularity, const CUmemAllocationProp* properties, CUmemAllocationGranularity_flags) {
  SIM_CALL(kInit);
  if (granularity == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *granularity = simcuda::kGranularity;
  return CUDA_SUCCESS;
}

SIM(cuMemAddressReserve)
(CUdeviceptr* out, std::size_t bytes, std::size_t alignment, CUdeviceptr wanted, unsigned long long flags) {
  SIM_CALL(kInit);
  if (out == nullptr || bytes == 0 || !simcuda::is_multiple(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  Device& device = simcuda::preferred_device(call);
  std::uint64_t address = 0;
  // The wanted address is a hint, as in the real driver.
  if (wanted != 0 && simcuda::is_multiple(wanted) && device.space->allocate_at(wanted, bytes)) address = wanted;
  if (address == 0) address = device.space->allocate(bytes, std::max(alignment, simcuda::kGranularity));
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation& reservation = device.reservations[address];
  reservation.address = reservation.range = address;
  reservation.bytes = reservation.reserved = bytes;
  reservation.device = device.ordinal;
  *out = address;
  return CUDA_SUCCESS;
}

SIM(cuMemAddressFree)(CUdeviceptr address, std::size_t bytes) {
  SIM_CALL(kInit);
  Allocation* reservation = nullptr;
  Device* device = simcuda::find_reserved(call, address, &reservation);
  if (device == nullptr || reservation->address != address || reservation->bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  auto mapped = device->memory.lower_bound(address);
  if (mapped != device->memory.end() && mapped->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  device->reservations.erase(address);
  device->space->free(address, bytes);
  return CUDA_SUCCESS;
}

SIM(cuMemCreate)
(CUmemGenericAllocationHandle* out, std::size_t bytes, const CUmemAllocationProp* properties,
 unsigned long long flags) {
  SIM_CALL(kInit);
  if (out == nullptr || properties == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0 || !simcuda::is_multiple(bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  Device* device = nullptr;
  if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    device = call.device(properties->location.id);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  } else if (properties->location.type == CU_MEM_LOCATION_TYPE_INVALID) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Physical* physical = simcuda::make_physical(call, bytes, *properties, device);
  if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(physical);
  return CUDA_SUCCESS;
}

SIM(cuMemRelease)(CUmemGenericAllocationHandle handle) {
  SIM_CALL(kInit);
  if (Multicast* multicast = call.state().find<Multicast>(reinterpret_cast<void*>(handle))) {
    call.state().destroy(multicast);
    return CUDA_SUCCESS;
  }
  Physical* physical = call.state().find<Physical>(reinterpret_cast<void*>(handle));
  if (physical == nullptr || physical->references == 0) return CUDA_ERROR_INVALID_VALUE;
  --physical->references;
  simcuda::end_if_unused(call.state(), *physical);
  return CUDA_SUCCESS;
}

SIM(cuMemMap)
(CUdeviceptr address, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
 unsigned long long flags) {
  SIM_CALL(kInit);
  Allocation* reservation = nullptr;
  Device* device = simcuda::find_reserved(call, address, &reservation);
  if (device == nullptr || flags != 0 || bytes == 0 || !simcuda::is_multiple(address) || !simcuda::is_multiple(bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (address + bytes > reservation->address + reservation->bytes) return CUDA_ERROR_INVALID_VALUE;
  auto next = device->memory.lower_bound(address);
  bool occupied = simcuda::containing(device->memory, address) != nullptr ||
                  (next != device->memory.end() && next->first < address + bytes);
  if (occupied) return CUDA_ERROR_INVALID_VALUE;
  Multicast* multicast = call.state().find<Multicast>(reinterpret_cast<void*>(handle));
  Physical* physical = call.state().find<Physical>(reinterpret_cast<void*>(handle));
  if (multicast == nullptr) {
    if (physical == nullptr || physical->references == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!simcuda::is_multiple(offset) || offset + bytes > physical->bytes) return CUDA_ERROR_INVALID_VALUE;
    device->space->alias(address, static_cast<char*>(physical->backing) + offset, bytes);
    ++physical->mappings;
  }
  Allocation& mapping = device->memory[address];
  mapping.address = mapping.range = address;
  mapping.bytes = bytes;
  mapping.id = call.state().next_id++;
  mapping.kind = MemoryKind::kVmmMapping;
  mapping.device = device->ordinal;
  mapping.physical = physical;
  mapping.physical_offset = offset;
  mapping.readable = false;
  return CUDA_SUCCESS;
}

SIM(cuMemUnmap)(CUdeviceptr address, std::size_t bytes) {
  SIM_CALL(kInit);
  Allocation* reservation = nullptr;
  Device* device = simcuda::find_reserved(call, address, &reservation);
  if (device == nullptr || bytes == 0 || !simcuda::covered_by_mappings(*device, address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  // Whole mappings only: both ends of the range must be ends of mappings.
  Allocation* first = simcuda::containing(device->memory, address);
  Allocation* last = simcuda::containing(device->memory, address + bytes - 1);
  if (first->address != address || last->address + last->bytes != address + bytes) return CUDA_ERROR_INVALID_VALUE;
  for (auto entry = device->memory.find(address); entry != device->memory.end() && entry->first < address + bytes;) {
    auto next = std::next(entry);
    simcuda::end_mapping(call.state(), entry->second);
    entry = next;
  }
  return CUDA_SUCCESS;
}

SIM(cuMemSetAccess)(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* accesses, std::size_t count) {
  SIM_CALL(kInit);
  Allocation* reservation = nullptr;
  Device* device = simcuda::find_reserved(call, address, &reservation);
  if (device == nullptr || accesses == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!simcuda::covered_by_mappings(*device, address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (auto entry = device->memory.find(address); entry != device->memory.end() && entry->first < address + bytes;
       ++entry) {
    entry->second.readable = accesses[0].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  }
  return CUDA_SUCCESS;
}

SIM(cuMemGetAccess)(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  SIM_CALL(kInit);
  Allocation* mapping = simcuda::find_containing(call.state(), -1, address);
  if (flags == nullptr || location == nullptr || mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = mapping->readable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

SIM(cuMemExportToShareableHandle)
(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags) {
  SIM_CALL(kInit);
  Physical* physical = call.state().find<Physical>(reinterpret_cast<void*>(handle));
  if (out == nullptr || physical == nullptr || physical->references == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if ((physical->properties.requestedHandleTypes & type) == 0) return CUDA_ERROR_INVALID_VALUE;
  ino_t inode = 0;
  simcuda::SharedDescription description;
  description.bytes = physical->bytes;
  description.device = physical->device;
  description.properties = physical->properties;
  int descriptor = simcuda::make_shareable_descriptor(description, &inode);
  if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  call.state().exported[inode] = physical;
  *static_cast<int*>(out) = descriptor;
  return CUDA_SUCCESS;
}

SIM(cuMemImportFromShareableHandle)
(CUmemGenericAllocationHandle* out, void* os_handle, CUmemAllocationHandleType type) {
  SIM_CALL(kInit);
  if (out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  int descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
  auto found = call.state().exported.find(simcuda::descriptor_inode(descriptor));
  Physical* physical = found == call.state().exported.end() ? nullptr : call.state().find<Physical>(found->second);
  if (physical != nullptr) {
    // Within one process an import is one more reference to the same memory.
    ++physical->references;
  } else {
    physical = simcuda::import_foreign_memory(call, descriptor);
    if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(physical);
  return CUDA_SUCCESS;
}

SIM(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle* out, void* address) {
  SIM_CALL(kInit);
  Allocation* mapping = simcuda::find_containing(call.state(), -1, reinterpret_cast<std::uint64_t>(address));
  if (out == nullptr || mapping == nullptr || mapping->physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++mapping->physical->references;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(mapping->physical);
  return CUDA_SUCCESS;
}

SIM(cuMemGetAllocationPropertiesFromHandle)(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
  SIM_CALL(kInit);
  Physical* physical = call.state().find<Physical>(reinterpret_cast<void*>(handle));
  if (out == nullptr || physical == nullptr || physical->references == 0) return CUDA_ERROR_INVALID_VALUE;
  *out = physical->properties;
  return CUDA_SUCCESS;
}

SIM(cuMulticastCreate)(CUmemGenericAllocationHandle* out, const CUmulticastObjectProp* properties) {
  SIM_CALL(kInit);
  if (out == nullptr || properties == nullptr || properties->numDevices == 0) return CUDA_ERROR_INVALID_VALUE;
  Multicast* multicast = call.state().add(new Multicast);
  multicast->properties = *properties;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(multicast);
  return CUDA_SUCCESS;
}

SIM(cuMulticastAddDevice)(CUmemGenericAllocationHandle handle, CUdevice ordinal) {
  SIM_CALL(kInit);
  Multicast* multicast = call.state().find<Multicast>(reinterpret_cast<void*>(handle));
  if (multicast == nullptr || call.device(ordinal) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  multicast->devices.push_back(ordinal);
  return CUDA_SUCCESS;
}

SIM(cuMulticastBindMem)
(CUmemGenericAllocationHandle handle, std::size_t, CUmemGenericAllocationHandle memory, std::size_t, std::size_t,
 unsigned long long) {
  SIM_CALL(kInit);
  bool valid = call.state().find<Multicast>(reinterpret_cast<void*>(handle)) != nullptr &&
               call.state().find<Physical>(reinterpret_cast<void*>(memory)) != nullptr;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM(cuMulticastBindAddr)
(CUmemGenericAllocationHandle handle, std::size_t, CUdeviceptr address, std::size_t, unsigned long long) {
  SIM_CALL(kInit);
  bool valid = call.state().find<Multicast>(reinterpret_cast<void*>(handle)) != nullptr &&
               simcuda::find_containing(call.state(), -1, address) != nullptr;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM(cuMulticastUnbind)(CUmemGenericAllocationHandle handle, CUdevice, std::size_t, std::size_t) {
  SIM_CALL(kInit);
  bool valid = call.state().find<Multicast>(reinterpret_cast<void*>(handle)) != nullptr;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM(cuMulticastGetGranularity)
(std::size_t* granularity, const CUmulticastObjectProp* properties, CUmulticastGranularity_flags) {
  SIM_CALL(kInit);
  if (granularity == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *granularity = simcuda::kGranularity;
  return CUDA_SUCCESS;
}
