// Memory other than VMM and graph memory.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "tests/subjects/check.h"
#include "tests/subjects/routes/routes.h"

namespace routes {

SUBJECT_FUNCTION std::size_t make_device(const Driver& cuda, bool leak) {
  CUdeviceptr pointer = 0;
  TRY(cuda.FUNCTION(cuMemAlloc_v2)(&pointer, 11001));
  if (!leak) TRY(cuda.FUNCTION(cuMemFree_v2)(pointer));
  return 11001;
}

SUBJECT_FUNCTION std::size_t make_managed(const Driver& cuda, bool leak) {
  CUdeviceptr pointer = 0;
  TRY(cuda.FUNCTION(cuMemAllocManaged)(&pointer, 11003, CU_MEM_ATTACH_GLOBAL));
  if (!leak) TRY(cuda.FUNCTION(cuMemFree_v2)(pointer));
  return 11003;
}

SUBJECT_FUNCTION std::size_t make_pitched(const Driver& cuda, bool leak) {
  CUdeviceptr pointer = 0;
  std::size_t pitch = 0;
  TRY(cuda.FUNCTION(cuMemAllocPitch_v2)(&pointer, &pitch, 1001, 13, 4));
  if (!leak) TRY(cuda.FUNCTION(cuMemFree_v2)(pointer));
  return pitch * 13;
}

SUBJECT_FUNCTION std::size_t make_pinned_alloc_host(const Driver& cuda, bool leak) {
  void* pointer = nullptr;
  TRY(cuda.FUNCTION(cuMemAllocHost_v2)(&pointer, 11005));
  if (!leak) TRY(cuda.FUNCTION(cuMemFreeHost)(pointer));
  return 11005;
}

SUBJECT_FUNCTION std::size_t make_pinned_host_alloc(const Driver& cuda, bool leak) {
  void* pointer = nullptr;
  TRY(cuda.FUNCTION(cuMemHostAlloc)(&pointer, 11007, CU_MEMHOSTALLOC_PORTABLE));
  if (!leak) TRY(cuda.FUNCTION(cuMemFreeHost)(pointer));
  return 11007;
}

SUBJECT_FUNCTION std::size_t make_pinned_alloc_host_old(const Driver& cuda, bool leak) {
  void* pointer = nullptr;
  TRY(cuda.FUNCTION(cuMemAllocHost)(&pointer, 11009));
  if (!leak) TRY(cuda.FUNCTION(cuMemFreeHost)(pointer));
  return 11009;
}

SUBJECT_FUNCTION std::size_t make_registered(const Driver& cuda, bool leak) {
  void* pointer = std::aligned_alloc(4096, 8192);
  TRY(cuda.FUNCTION(cuMemHostRegister_v2)(pointer, 8192, 0));
  if (!leak) TRY(cuda.FUNCTION(cuMemHostUnregister)(pointer));
  return 8192;
}

SUBJECT_FUNCTION std::size_t make_registered_old(const Driver& cuda, bool leak) {
  void* pointer = std::aligned_alloc(4096, 12288);
  TRY(cuda.FUNCTION(cuMemHostRegister)(pointer, 12288, 0));
  if (!leak) TRY(cuda.FUNCTION(cuMemHostUnregister)(pointer));
  return 12288;
}

SUBJECT_FUNCTION std::size_t make_array(const Driver& cuda, bool leak) {
  CUDA_ARRAY_DESCRIPTOR description = {};
  description.Width = 101;
  description.Height = 11;
  description.Format = CU_AD_FORMAT_FLOAT;
  description.NumChannels = 2;
  CUarray array = nullptr;
  TRY(cuda.FUNCTION(cuArrayCreate_v2)(&array, &description));
  if (!leak) TRY(cuda.FUNCTION(cuArrayDestroy)(array));
  return 101 * 11 * 4 * 2;
}

static CUDA_ARRAY3D_DESCRIPTOR volume_description() {
  CUDA_ARRAY3D_DESCRIPTOR description = {};
  description.Width = 64;
  description.Height = 32;
  description.Depth = 16;
  description.Format = CU_AD_FORMAT_UNSIGNED_INT16;
  description.NumChannels = 1;
  return description;
}

SUBJECT_FUNCTION std::size_t make_array_3d(const Driver& cuda, bool leak) {
  const CUDA_ARRAY3D_DESCRIPTOR description = volume_description();
  CUarray array = nullptr;
  TRY(cuda.FUNCTION(cuArray3DCreate_v2)(&array, &description));
  if (!leak) TRY(cuda.FUNCTION(cuArrayDestroy)(array));
  return 64 * 32 * 16 * 2;
}

SUBJECT_FUNCTION std::size_t make_array_old(const Driver& cuda, bool leak) {
  CUDA_ARRAY_DESCRIPTOR_v1 description = {};
  description.Width = 103;
  description.Height = 7;
  description.Format = CU_AD_FORMAT_FLOAT;
  description.NumChannels = 1;
  CUarray array = nullptr;
  TRY(cuda.FUNCTION(cuArrayCreate)(&array, &description));
  if (!leak) TRY(cuda.FUNCTION(cuArrayDestroy)(array));
  return 103 * 7 * 4;
}

SUBJECT_FUNCTION std::size_t make_array_3d_old(const Driver& cuda, bool leak) {
  CUDA_ARRAY3D_DESCRIPTOR_v1 description = {};
  description.Width = 32;
  description.Height = 16;
  description.Depth = 8;
  description.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  description.NumChannels = 1;
  CUarray array = nullptr;
  TRY(cuda.FUNCTION(cuArray3DCreate)(&array, &description));
  if (!leak) TRY(cuda.FUNCTION(cuArrayDestroy)(array));
  return 32 * 16 * 8;
}

SUBJECT_FUNCTION std::size_t make_mipmapped(const Driver& cuda, bool leak) {
  const CUDA_ARRAY3D_DESCRIPTOR description = volume_description();
  CUmipmappedArray array = nullptr;
  TRY(cuda.FUNCTION(cuMipmappedArrayCreate)(&array, &description, 3));
  if (!leak) TRY(cuda.FUNCTION(cuMipmappedArrayDestroy)(array));
  return (64 * 32 * 16 + 32 * 16 * 8 + 16 * 8 * 4) * 2;
}

SUBJECT_FUNCTION std::size_t make_async(const Driver& cuda, bool leak) {
  CUdeviceptr pointer = 0;
  TRY(cuda.FUNCTION(cuMemAllocAsync)(&pointer, 11011, nullptr));
  if (!leak) TRY(cuda.FUNCTION(cuMemFreeAsync)(pointer, nullptr));
  TRY(cuda.FUNCTION(cuStreamSynchronize)(nullptr));
  return 11011;
}

// cudaFree takes stream-ordered memory too: the driver sees cuMemFree_v2.
SUBJECT_FUNCTION std::size_t make_async_freed_at_once(const Driver& cuda, bool leak) {
  CUdeviceptr pointer = 0;
  TRY(cuda.FUNCTION(cuMemAllocAsync)(&pointer, 11013, nullptr));
  if (!leak) TRY(cuda.FUNCTION(cuMemFree_v2)(pointer));
  return 11013;
}

static CUmemoryPool create_pool(const Driver& cuda) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool pool = nullptr;
  TRY(cuda.FUNCTION(cuMemPoolCreate)(&pool, &properties));
  return pool;
}

SUBJECT_FUNCTION std::size_t make_async_from_pool(const Driver& cuda, bool leak) {
  CUmemoryPool pool = create_pool(cuda);
  CUdeviceptr pointer = 0;
  TRY(cuda.FUNCTION(cuMemAllocFromPoolAsync)(&pointer, 11017, pool, nullptr));
  if (!leak) TRY(cuda.FUNCTION(cuMemFreeAsync)(pointer, nullptr));
  TRY(cuda.FUNCTION(cuStreamSynchronize)(nullptr));
  TRY(cuda.FUNCTION(cuMemPoolDestroy)(pool));
  return 11017;
}

SUBJECT_FUNCTION std::size_t make_pool(const Driver& cuda, bool leak) {
  CUmemoryPool pool = create_pool(cuda);
  if (!leak) TRY(cuda.FUNCTION(cuMemPoolDestroy)(pool));
  return 0;
}

static SUBJECT_FUNCTION CUmemoryPool import_pool(const Driver& cuda, CUmemoryPool pool) {
  int descriptor = -1;
  TRY(cuda.FUNCTION(cuMemPoolExportToShareableHandle)(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemoryPool imported = nullptr;
  TRY(cuda.FUNCTION(cuMemPoolImportFromShareableHandle)(&imported,
                                                        reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  close(descriptor);
  return imported;
}

SUBJECT_FUNCTION std::size_t make_pool_import(const Driver& cuda, bool leak) {
  CUmemoryPool pool = create_pool(cuda);
  CUmemoryPool imported = import_pool(cuda, pool);
  if (!leak) TRY(cuda.FUNCTION(cuMemPoolDestroy)(imported));
  TRY(cuda.FUNCTION(cuMemPoolDestroy)(pool));
  return 0;
}

// An allocation of a pool, opened a second time through the pool's import, which NVIDIA's driver refuses to destroy
// while the allocation is open.
SUBJECT_FUNCTION std::size_t make_pool_pointer(const Driver& cuda, bool leak) {
  CUmemoryPool pool = create_pool(cuda);
  CUmemoryPool imported = import_pool(cuda, pool);
  CUdeviceptr pointer = 0;
  TRY(cuda.FUNCTION(cuMemAllocFromPoolAsync)(&pointer, 11033, pool, nullptr));
  CUmemPoolPtrExportData data = {};
  TRY(cuda.FUNCTION(cuMemPoolExportPointer)(&data, pointer));
  CUdeviceptr opened = 0;
  TRY(cuda.FUNCTION(cuMemPoolImportPointer)(&opened, imported, &data));
  if (!leak) TRY(cuda.FUNCTION(cuMemFreeAsync)(opened, nullptr));
  TRY(cuda.FUNCTION(cuMemFreeAsync)(pointer, nullptr));
  TRY(cuda.FUNCTION(cuStreamSynchronize)(nullptr));
  if (!leak) TRY(cuda.FUNCTION(cuMemPoolDestroy)(imported));
  TRY(cuda.FUNCTION(cuMemPoolDestroy)(pool));
  return 0;
}

// Opens memory of this process with `open`, which NVIDIA's driver allows in another process only.
template <typename Open>
static std::size_t open_ipc(const Driver& cuda, bool leak, Open open) {
  CUdeviceptr pointer = 0;
  TRY(cuda.FUNCTION(cuMemAlloc_v2)(&pointer, 11019));
  CUipcMemHandle handle;
  CUdeviceptr opened = 0;
  CUresult code = cuda.FUNCTION(cuIpcGetMemHandle)(&handle, pointer);
  if (code == CUDA_SUCCESS) code = open(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (code == CUDA_SUCCESS && !leak) code = cuda.FUNCTION(cuIpcCloseMemHandle)(opened);
  TRY(cuda.FUNCTION(cuMemFree_v2)(pointer));
  TRY(code);
  return 0;
}

SUBJECT_FUNCTION std::size_t make_ipc(const Driver& cuda, bool leak) {
  return open_ipc(cuda, leak, cuda.FUNCTION(cuIpcOpenMemHandle_v2));
}

SUBJECT_FUNCTION std::size_t make_ipc_old(const Driver& cuda, bool leak) {
  return open_ipc(cuda, leak, cuda.FUNCTION(cuIpcOpenMemHandle));
}

}  // namespace routes
