// Virtual memory management: addresses, physical memory and mappings are separate things. The comment of each function
// says which of them it leaves behind. Imports and external memory are made from exported physical memory, so they
// stand here too.
#include <unistd.h>

#include <cstdint>

#include "tests/subjects/check.h"
#include "tests/subjects/routes/routes.h"

namespace routes {

static CUmemAllocationProp physical_properties() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

static std::size_t granule(const Driver& cuda) {
  const CUmemAllocationProp properties = physical_properties();
  std::size_t size = 0;
  TRY(cuda.FUNCTION(cuMemGetAllocationGranularity)(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return size;
}

static CUmemGenericAllocationHandle create(const Driver& cuda, std::size_t size) {
  const CUmemAllocationProp properties = physical_properties();
  CUmemGenericAllocationHandle handle = 0;
  TRY(cuda.FUNCTION(cuMemCreate)(&handle, size, &properties, 0));
  return handle;
}

static CUdeviceptr reserve(const Driver& cuda, std::size_t size) {
  CUdeviceptr address = 0;
  TRY(cuda.FUNCTION(cuMemAddressReserve)(&address, size, 0, 0, 0));
  return address;
}

static void map(const Driver& cuda, CUdeviceptr address, std::size_t size, CUmemGenericAllocationHandle handle) {
  TRY(cuda.FUNCTION(cuMemMap)(address, size, 0, handle, 0));
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  TRY(cuda.FUNCTION(cuMemSetAccess)(address, size, &access, 1));
}

// A handle that was never mapped and never released.
SUBJECT_FUNCTION std::size_t make_vmm_physical(const Driver& cuda, bool leak) {
  const std::size_t size = 3 * granule(cuda);
  const CUmemGenericAllocationHandle handle = create(cuda, size);
  if (!leak) TRY(cuda.FUNCTION(cuMemRelease)(handle));
  return size;
}

// An address range without memory.
SUBJECT_FUNCTION std::size_t make_vmm_reservation(const Driver& cuda, bool leak) {
  const std::size_t size = 5 * granule(cuda);
  const CUdeviceptr address = reserve(cuda, size);
  if (!leak) TRY(cuda.FUNCTION(cuMemAddressFree)(address, size));
  return 0;
}

// The common idiom: create, map, release the handle; the mapping alone keeps the memory alive. Counted once.
SUBJECT_FUNCTION std::size_t make_vmm_mapping(const Driver& cuda, bool leak) {
  const std::size_t size = 7 * granule(cuda);
  const CUdeviceptr address = reserve(cuda, size);
  const CUmemGenericAllocationHandle handle = create(cuda, size);
  map(cuda, address, size, handle);
  TRY(cuda.FUNCTION(cuMemRelease)(handle));
  if (!leak) {
    TRY(cuda.FUNCTION(cuMemUnmap)(address, size));
    TRY(cuda.FUNCTION(cuMemAddressFree)(address, size));
  }
  return size;
}

// Unmapped and released once, but a reference from cuMemRetainAllocationHandle keeps the memory.
SUBJECT_FUNCTION std::size_t make_vmm_retained(const Driver& cuda, bool leak) {
  const std::size_t size = 9 * granule(cuda);
  const CUdeviceptr address = reserve(cuda, size);
  const CUmemGenericAllocationHandle handle = create(cuda, size);
  map(cuda, address, size, handle);
  CUmemGenericAllocationHandle retained = 0;
  TRY(cuda.FUNCTION(cuMemRetainAllocationHandle)(&retained, reinterpret_cast<void*>(address)));
  TRY(cuda.FUNCTION(cuMemRelease)(handle));
  TRY(cuda.FUNCTION(cuMemUnmap)(address, size));
  TRY(cuda.FUNCTION(cuMemAddressFree)(address, size));
  if (!leak) TRY(cuda.FUNCTION(cuMemRelease)(retained));
  return size;
}

static int export_descriptor(const Driver& cuda, CUmemGenericAllocationHandle handle) {
  int descriptor = -1;
  TRY(cuda.FUNCTION(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  return descriptor;
}

// Imports what this process exported itself, and leaves both handles: one physical allocation, counted once.
SUBJECT_FUNCTION std::size_t make_vmm_import(const Driver& cuda, bool leak) {
  const std::size_t size = granule(cuda);
  const CUmemGenericAllocationHandle handle = create(cuda, size);
  const int descriptor = export_descriptor(cuda, handle);
  CUmemGenericAllocationHandle imported = 0;
  TRY(cuda.FUNCTION(cuMemImportFromShareableHandle)(&imported,
                                                    reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(descriptor);
  if (!leak) {
    TRY(cuda.FUNCTION(cuMemRelease)(handle));
    TRY(cuda.FUNCTION(cuMemRelease)(imported));
  }
  return size;
}

static CUexternalMemory import_external(const Driver& cuda, std::size_t size) {
  const CUmemGenericAllocationHandle handle = create(cuda, size);
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {};
  description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = export_descriptor(cuda, handle);
  description.size = size;
  CUexternalMemory memory = nullptr;
  const CUresult code = cuda.FUNCTION(cuImportExternalMemory)(&memory, &description);
  TRY(cuda.FUNCTION(cuMemRelease)(handle));
  TRY(code);
  return memory;
}

SUBJECT_FUNCTION std::size_t make_external(const Driver& cuda, bool leak) {
  CUexternalMemory memory = import_external(cuda, granule(cuda));
  if (!leak) TRY(cuda.FUNCTION(cuDestroyExternalMemory)(memory));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_external_buffer(const Driver& cuda, bool leak) {
  const std::size_t size = granule(cuda);
  CUexternalMemory memory = import_external(cuda, size);
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC description = {};
  description.size = size;
  CUdeviceptr pointer = 0;
  TRY(cuda.FUNCTION(cuExternalMemoryGetMappedBuffer)(&pointer, memory, &description));
  if (!leak) TRY(cuda.FUNCTION(cuMemFree_v2)(pointer));
  TRY(cuda.FUNCTION(cuDestroyExternalMemory)(memory));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_external_mipmapped(const Driver& cuda, bool leak) {
  CUexternalMemory memory = import_external(cuda, granule(cuda));
  CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC description = {};
  description.arrayDesc.Width = 64;
  description.arrayDesc.Height = 32;
  description.arrayDesc.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  description.arrayDesc.NumChannels = 1;
  description.numLevels = 1;
  CUmipmappedArray array = nullptr;
  TRY(cuda.FUNCTION(cuExternalMemoryGetMappedMipmappedArray)(&array, memory, &description));
  if (!leak) TRY(cuda.FUNCTION(cuMipmappedArrayDestroy)(array));
  TRY(cuda.FUNCTION(cuDestroyExternalMemory)(memory));
  return 0;
}

// NVIDIA's driver takes descriptors of real semaphores only; the simulated one takes any.
SUBJECT_FUNCTION std::size_t make_external_semaphore(const Driver& cuda, bool leak) {
  CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC description = {};
  description.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = dup(STDOUT_FILENO);
  CUexternalSemaphore semaphore = nullptr;
  TRY(cuda.FUNCTION(cuImportExternalSemaphore)(&semaphore, &description));
  if (!leak) TRY(cuda.FUNCTION(cuDestroyExternalSemaphore)(semaphore));
  return 0;
}

// On real devices multicast concerns the fabric between them, which must not be used on the machines lent for tests.
SUBJECT_FUNCTION std::size_t make_multicast(const Driver& cuda, bool leak) {
  if (on_gpu()) throw Unsupported{"cuMulticastCreate", 0};
  CUmulticastObjectProp properties = {};
  properties.numDevices = 1;
  properties.size = granule(cuda);
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  TRY(cuda.FUNCTION(cuMulticastCreate)(&handle, &properties));
  if (!leak) TRY(cuda.FUNCTION(cuMemRelease)(handle));
  return 0;
}

}  // namespace routes
