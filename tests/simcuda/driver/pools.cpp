#include "tests/simcuda/driver/pools.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/capture.h"
#include "tests/simcuda/driver/free_calls.h"
#include "tests/simcuda/driver/streams.h"
#include "tests/simcuda/driver/vmm.h"

namespace simcuda {
namespace {

constexpr std::size_t kChunk = std::size_t{32} << 20;  // the amount that a pool takes from the device at a time

Pool* add_pool(DriverState& state, Device& device) {
  Pool* pool = state.add(new Pool);
  pool->device = device.ordinal;
  device.pools.push_back(pool);
  return pool;
}

void note_used(Pool& pool) { pool.used_high = std::max(pool.used_high, pool.used); }

CUresult allocate_on_host(DriverState& state, Pool& pool, std::size_t bytes, Context* context, std::uint64_t* out) {
  *out = reinterpret_cast<std::uint64_t>(malloc(bytes));
  if (*out == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation& allocation = state.host[*out];
  allocation.address = allocation.range = *out;
  allocation.bytes = bytes;
  allocation.id = state.next_id++;
  allocation.kind = MemoryKind::kPool;
  allocation.context = context;
  allocation.pool = &pool;
  pool.used += bytes;
  ++pool.live;
  note_used(pool);
  return CUDA_SUCCESS;
}

CUresult allocate(DriverState& state, Pool& pool, std::size_t bytes, Context* context, std::uint64_t* out) {
  if (pool.exporter != nullptr || pool.foreign != 0)
    return CUDA_ERROR_INVALID_VALUE;  // an importer can only import pointers
  Device& device = *state.devices[pool.device];
  if (pool.on_host) return allocate_on_host(state, pool, bytes, context, out);
  if (pool.maximum != 0 && pool.used + bytes > pool.maximum) return CUDA_ERROR_OUT_OF_MEMORY;
  if (pool.used + bytes > pool.reserved) {
    std::size_t missing = pool.used + bytes - pool.reserved;
    std::size_t grow = round_up(missing, kChunk);
    if (grow > device.available() && !make_room(state, device, grow)) {
      grow = missing;
      if (grow > device.available()) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    // make_room may have trimmed this very pool.
    grow += pool.used + bytes - pool.reserved - missing;
    if (grow > device.available()) return CUDA_ERROR_OUT_OF_MEMORY;
    pool.reserved += grow;
    pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
    device.used += grow;
  }
  Allocation* allocation = add_allocation(state, device, MemoryKind::kPool, bytes, 512, 0, context);
  if (allocation == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  allocation->pool = &pool;
  pool.used += bytes;
  ++pool.live;
  note_used(pool);
  *out = allocation->address;
  return CUDA_SUCCESS;
}

CUresult allocate_async(Call& call, CUdeviceptr* out, std::size_t bytes, Pool* pool, CUstream handle) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = find_stream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return capture_allocation(call.state(), *stream, bytes, out);
  if (pool == nullptr) pool = call.state().devices[stream->context->device]->current_pool;
  std::uint64_t address = 0;
  CUresult status = allocate(call.state(), *pool, bytes, stream->context, &address);
  if (status == CUDA_SUCCESS) *out = address;
  return status;
}

Pool* find_location_pool(Call& call, const CUmemLocation* location, bool default_pool) {
  if (location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return nullptr;
  Device* device = call.device(location->id);
  if (device == nullptr) return nullptr;
  return default_pool ? device->default_pool : device->current_pool;
}

struct ExportedPointer {
  std::uint64_t magic;
  std::uint64_t pool;  // its name
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t id;  // tells the memory from later memory at its address
};
static_assert(sizeof(ExportedPointer) <= sizeof(CUmemPoolPtrExportData));
constexpr std::uint64_t kPointerMagic = 0x6c6f6f706d6973;

// The same name in all processes.
std::uint64_t name_of(const Pool* pool) {
  return reinterpret_cast<std::uint64_t>(pool) ^ static_cast<std::uint64_t>(getpid()) << 48;
}

Pool* import_foreign(Call& call, int descriptor) {
  SharedDescription shared;
  if (!read_description(descriptor, &shared) || shared.pool == 0) return nullptr;
  Device* device = call.device(static_cast<int>(shared.device));
  if (device == nullptr) return nullptr;
  Pool* pool = add_pool(call.state(), *device);
  pool->properties = shared.pool_properties;
  pool->foreign = shared.pool;
  return pool;
}

}  // namespace

void Pool::release(DriverState& state) {
  state.devices[device]->used -= reserved;
  reserved = 0;
  auto& siblings = state.devices[device]->pools;
  siblings.erase(std::remove(siblings.begin(), siblings.end(), this), siblings.end());
  forget_exports(state, this);
  for (Pool* pool : siblings) {
    if (pool->exporter == this) pool->exporter = nullptr;
  }
}

Pool* make_default_pool(DriverState& state, Device& device) {
  Pool* pool = add_pool(state, device);
  pool->is_default = true;
  pool->properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  pool->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device.ordinal}};
  return pool;
}

void trim_pool(DriverState& state, Pool& pool, std::uint64_t keep) {
  std::uint64_t target = std::max(keep, pool.used);
  if (pool.reserved <= target) return;
  state.devices[pool.device]->used -= pool.reserved - target;
  pool.reserved = target;
}

void note_pool_free(DriverState& state, Pool& pool, std::size_t bytes) {
  pool.used -= bytes;
  --pool.live;
  if (pool.dying && pool.live == 0) state.destroy(&pool);
}

void synchronize_pools(DriverState& state, int device) {
  for (Pool* pool : state.devices[device]->pools) {
    if (pool->reserved > pool->release_threshold) trim_pool(state, *pool, pool->release_threshold);
  }
}

}  // namespace simcuda

using simcuda::Allocation;
using simcuda::Call;
using simcuda::Device;
using simcuda::MemoryKind;
using simcuda::Pool;

SIM(cuMemAllocAsync)(CUdeviceptr* out, std::size_t bytes, CUstream stream) {
  if (simcuda::free_calls) return simcuda::allocate_for_free(out, bytes);
  SIM_CALL(kContext);
  return simcuda::allocate_async(call, out, bytes, nullptr, stream);
}

SIM(cuMemAllocFromPoolAsync)(CUdeviceptr* out, std::size_t bytes, CUmemoryPool handle, CUstream stream) {
  SIM_CALL(kContext);
  Pool* pool = call.state().find<Pool>(handle);
  if (pool == nullptr || pool->dying) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::allocate_async(call, out, bytes, pool, stream);
}

SIM(cuMemFreeAsync)(CUdeviceptr address, CUstream handle) {
  if (simcuda::free_calls) return simcuda::free_for_free(address);
  SIM_CALL(kContext);
  simcuda::Stream* stream = simcuda::find_stream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (address == 0) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture != nullptr) return simcuda::capture_free(call.state(), *stream, address);
  Allocation* allocation = simcuda::find_allocation(call.state(), call.context().device, address);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (allocation->kind) {
    // cuMemAlloc'ed memory may be freed in stream order, too.
    case MemoryKind::kDevice:
    case MemoryKind::kPool:
    case MemoryKind::kPoolImport:
    case MemoryKind::kGraph:
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  simcuda::release_allocation(call.state(), *allocation);
  return CUDA_SUCCESS;
}

SIM(cuMemPoolCreate)(CUmemoryPool* out, const CUmemPoolProps* properties) {
  SIM_CALL(kInit);
  if (out == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type == CU_MEM_LOCATION_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  const bool on_host = properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
  Device* device = call.device(on_host ? 0 : properties->location.id);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Pool* pool = simcuda::add_pool(call.state(), *device);
  pool->on_host = on_host;
  pool->properties = *properties;
  pool->maximum = properties->maxSize;
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

SIM(cuMemPoolDestroy)(CUmemoryPool handle) {
  SIM_CALL(kInit);
  Pool* pool = call.state().find<Pool>(handle);
  if (pool == nullptr || pool->dying) return CUDA_ERROR_INVALID_VALUE;
  if (pool->is_default) return CUDA_ERROR_NOT_PERMITTED;
  Device& device = *call.state().devices[pool->device];
  if (device.current_pool == pool) device.current_pool = device.default_pool;
  simcuda::trim_pool(call.state(), *pool, 0);
  if (pool->live == 0) {
    call.state().destroy(pool);
  } else {
    pool->dying = true;
  }
  return CUDA_SUCCESS;
}

SIM(cuMemPoolTrimTo)(CUmemoryPool handle, std::size_t keep) {
  SIM_CALL(kInit);
  Pool* pool = call.state().find<Pool>(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  simcuda::trim_pool(call.state(), *pool, keep);
  return CUDA_SUCCESS;
}

SIM(cuMemPoolSetAttribute)(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  SIM_CALL(kInit);
  Pool* pool = call.state().find<Pool>(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *static_cast<int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->release_threshold = *static_cast<cuuint64_t*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) pool->reserved_high = pool->reserved;
      if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) pool->used_high = pool->used;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

SIM(cuMemPoolGetAttribute)(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  SIM_CALL(kInit);
  Pool* pool = call.state().find<Pool>(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* number = static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) = pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *number = pool->release_threshold;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *number = pool->reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *number = pool->reserved_high;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *number = pool->used;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *number = pool->used_high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

SIM(cuMemPoolSetAccess)(CUmemoryPool handle, const CUmemAccessDesc* accesses, std::size_t count) {
  SIM_CALL(kInit);
  Pool* pool = call.state().find<Pool>(handle);
  if (pool == nullptr || (accesses == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    if (call.device(accesses[i].location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    pool->access[accesses[i].location.id] = accesses[i].flags;
  }
  return CUDA_SUCCESS;
}

SIM(cuMemPoolGetAccess)(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation* location) {
  SIM_CALL(kInit);
  Pool* pool = call.state().find<Pool>(handle);
  if (pool == nullptr || flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto found = pool->access.find(location->id);
  *flags = found != pool->access.end()    ? found->second
           : location->id == pool->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                          : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetDefaultMemPool)(CUmemoryPool* out, CUdevice ordinal) {
  SIM_CALL(kInit);
  Device* device = call.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmemoryPool>(device->default_pool);
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetMemPool)(CUmemoryPool* out, CUdevice ordinal) {
  SIM_CALL(kInit);
  Device* device = call.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmemoryPool>(device->current_pool);
  return CUDA_SUCCESS;
}

SIM(cuDeviceSetMemPool)(CUdevice ordinal, CUmemoryPool handle) {
  SIM_CALL(kInit);
  Device* device = call.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Pool* pool = call.state().find<Pool>(handle);
  if (pool == nullptr || pool->device != ordinal || pool->dying) return CUDA_ERROR_INVALID_VALUE;
  device->current_pool = pool;
  return CUDA_SUCCESS;
}

SIM(cuMemGetDefaultMemPool)(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType) {
  SIM_CALL(kInit);
  Pool* pool = simcuda::find_location_pool(call, location, true);
  if (pool == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

SIM(cuMemGetMemPool)(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType) {
  SIM_CALL(kInit);
  Pool* pool = simcuda::find_location_pool(call, location, false);
  if (pool == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

SIM(cuMemSetMemPool)(CUmemLocation* location, CUmemAllocationType, CUmemoryPool handle) {
  SIM_CALL(kInit);
  Pool* pool = call.state().find<Pool>(handle);
  if (simcuda::find_location_pool(call, location, true) == nullptr || pool == nullptr || pool->device != location->id) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  call.device(location->id)->current_pool = pool;
  return CUDA_SUCCESS;
}

SIM(cuMemPoolExportToShareableHandle)
(void* out, CUmemoryPool handle, CUmemAllocationHandleType type, unsigned long long) {
  SIM_CALL(kInit);
  Pool* pool = call.state().find<Pool>(handle);
  if (pool == nullptr || out == nullptr || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || (pool->properties.handleTypes & type) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ino_t inode = 0;
  simcuda::SharedDescription description;
  description.pool = simcuda::name_of(pool);
  description.device = pool->device;
  description.pool_properties = pool->properties;
  int descriptor = simcuda::make_shareable_descriptor(description, &inode);
  if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  call.state().exported[inode] = pool;
  *static_cast<int*>(out) = descriptor;
  return CUDA_SUCCESS;
}

SIM(cuMemPoolImportFromShareableHandle)
(CUmemoryPool* out, void* os_handle, CUmemAllocationHandleType type, unsigned long long) {
  SIM_CALL(kInit);
  if (out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  int descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
  auto found = call.state().exported.find(simcuda::descriptor_inode(descriptor));
  if (found == call.state().exported.end()) {
    Pool* foreign = simcuda::import_foreign(call, descriptor);
    *out = reinterpret_cast<CUmemoryPool>(foreign);
    return foreign == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  Pool* exporter = call.state().find<Pool>(found->second);
  if (exporter == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Pool* pool = simcuda::add_pool(call.state(), *call.state().devices[exporter->device]);
  pool->properties = exporter->properties;
  pool->exporter = exporter;
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

SIM(cuMemPoolExportPointer)(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  SIM_CALL(kInit);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Allocation* allocation = simcuda::find_allocation(call.state(), -1, address);
  if (allocation == nullptr || allocation->kind != MemoryKind::kPool) return CUDA_ERROR_INVALID_VALUE;
  simcuda::ExportedPointer data{simcuda::kPointerMagic, simcuda::name_of(allocation->pool), address, allocation->bytes,
                                allocation->id};
  memset(out, 0, sizeof(*out));
  memcpy(out, &data, sizeof(data));
  return CUDA_SUCCESS;
}

SIM(cuMemPoolImportPointer)(CUdeviceptr* out, CUmemoryPool handle, CUmemPoolPtrExportData* exported) {
  SIM_CALL(kInit);
  Pool* pool = call.state().find<Pool>(handle);
  if (out == nullptr || pool == nullptr || exported == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool foreign = pool->foreign != 0;
  if (!foreign && pool->exporter == nullptr) return CUDA_ERROR_INVALID_VALUE;
  simcuda::ExportedPointer data;
  memcpy(&data, exported, sizeof(data));
  const std::uint64_t name = foreign ? pool->foreign : simcuda::name_of(pool->exporter);
  if (data.magic != simcuda::kPointerMagic || data.pool != name) return CUDA_ERROR_INVALID_VALUE;
  Device& device = *call.state().devices[pool->device];
  // Memory of another process is as much of this one's.
  Allocation* import =
      foreign
          ? simcuda::add_allocation(call.state(), device, MemoryKind::kPoolImport,
                                    simcuda::round_up(data.bytes, simcuda::kPageBytes), simcuda::kPageBytes, 0, nullptr)
          : simcuda::add_alias(call.state(), device, MemoryKind::kPoolImport, data.address, data.bytes, nullptr);
  if (import == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = import->address;
  return CUDA_SUCCESS;
}
