// Memory other than VMM and graph memory.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "tests/subjects/check.h"
#include "tests/subjects/routes/routes.h"

namespace routes {
namespace {

SUBJECT_FUNCTION std::size_t make_device(const Driver& cuda, bool leak) {
  CUdeviceptr pointer = 0;
  TRY(cuda.cuMemAlloc_v2(&pointer, 11001));
  if (!leak) TRY(cuda.cuMemFree_v2(pointer));
  return 11001;
}

SUBJECT_FUNCTION std::size_t make_managed(const Driver& cuda, bool leak) {
  CUdeviceptr pointer = 0;
  TRY(cuda.cuMemAllocManaged(&pointer, 11003, CU_MEM_ATTACH_GLOBAL));
  if (!leak) TRY(cuda.cuMemFree_v2(pointer));
  return 11003;
}

SUBJECT_FUNCTION std::size_t make_pitched(const Driver& cuda, bool leak) {
  CUdeviceptr pointer = 0;
  std::size_t pitch = 0;
  TRY(cuda.cuMemAllocPitch_v2(&pointer, &pitch, 1001, 13, 4));
  if (!leak) TRY(cuda.cuMemFree_v2(pointer));
  return pitch * 13;
}

SUBJECT_FUNCTION std::size_t make_pinned_alloc_host(const Driver& cuda, bool leak) {
  void* pointer = nullptr;
  TRY(cuda.cuMemAllocHost_v2(&pointer, 11005));
  if (!leak) TRY(cuda.cuMemFreeHost(pointer));
  return 11005;
}

SUBJECT_FUNCTION std::size_t make_pinned_host_alloc(const Driver& cuda, bool leak) {
  void* pointer = nullptr;
  TRY(cuda.cuMemHostAlloc(&pointer, 11007, CU_MEMHOSTALLOC_PORTABLE));
  if (!leak) TRY(cuda.cuMemFreeHost(pointer));
  return 11007;
}

SUBJECT_FUNCTION std::size_t make_registered(const Driver& cuda, bool leak) {
  void* pointer = std::aligned_alloc(4096, 8192);
  TRY(cuda.cuMemHostRegister_v2(pointer, 8192, 0));
  if (!leak) TRY(cuda.cuMemHostUnregister(pointer));
  return 8192;
}

SUBJECT_FUNCTION std::size_t make_registered_old(const Driver& cuda, bool leak) {
  void* pointer = std::aligned_alloc(4096, 12288);
  TRY(cuda.cuMemHostRegister(pointer, 12288, 0));
  if (!leak) TRY(cuda.cuMemHostUnregister(pointer));
  return 12288;
}

SUBJECT_FUNCTION std::size_t make_array(const Driver& cuda, bool leak) {
  CUDA_ARRAY_DESCRIPTOR description = {};
  description.Width = 101;
  description.Height = 11;
  description.Format = CU_AD_FORMAT_FLOAT;
  description.NumChannels = 2;
  CUarray array = nullptr;
  TRY(cuda.cuArrayCreate_v2(&array, &description));
  if (!leak) TRY(cuda.cuArrayDestroy(array));
  return 101 * 11 * 4 * 2;
}

CUDA_ARRAY3D_DESCRIPTOR volume_description() {
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
  TRY(cuda.cuArray3DCreate_v2(&array, &description));
  if (!leak) TRY(cuda.cuArrayDestroy(array));
  return 64 * 32 * 16 * 2;
}

SUBJECT_FUNCTION std::size_t make_mipmapped(const Driver& cuda, bool leak) {
  const CUDA_ARRAY3D_DESCRIPTOR description = volume_description();
  CUmipmappedArray array = nullptr;
  TRY(cuda.cuMipmappedArrayCreate(&array, &description, 3));
  if (!leak) TRY(cuda.cuMipmappedArrayDestroy(array));
  return (64 * 32 * 16 + 32 * 16 * 8 + 16 * 8 * 4) * 2;
}

SUBJECT_FUNCTION std::size_t make_async(const Driver& cuda, bool leak) {
  CUdeviceptr pointer = 0;
  TRY(cuda.cuMemAllocAsync(&pointer, 11011, nullptr));
  if (!leak) TRY(cuda.cuMemFreeAsync(pointer, nullptr));
  TRY(cuda.cuStreamSynchronize(nullptr));
  return 11011;
}

// cudaFree takes stream-ordered memory too: the driver sees cuMemFree_v2.
SUBJECT_FUNCTION std::size_t make_async_freed_at_once(const Driver& cuda, bool leak) {
  CUdeviceptr pointer = 0;
  TRY(cuda.cuMemAllocAsync(&pointer, 11013, nullptr));
  if (!leak) TRY(cuda.cuMemFree_v2(pointer));
  return 11013;
}

CUmemoryPool create_pool(const Driver& cuda) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool pool = nullptr;
  TRY(cuda.cuMemPoolCreate(&pool, &properties));
  return pool;
}

SUBJECT_FUNCTION std::size_t make_async_from_pool(const Driver& cuda, bool leak) {
  CUmemoryPool pool = create_pool(cuda);
  CUdeviceptr pointer = 0;
  TRY(cuda.cuMemAllocFromPoolAsync(&pointer, 11017, pool, nullptr));
  if (!leak) TRY(cuda.cuMemFreeAsync(pointer, nullptr));
  TRY(cuda.cuStreamSynchronize(nullptr));
  TRY(cuda.cuMemPoolDestroy(pool));
  return 11017;
}

SUBJECT_FUNCTION std::size_t make_pool(const Driver& cuda, bool leak) {
  CUmemoryPool pool = create_pool(cuda);
  if (!leak) TRY(cuda.cuMemPoolDestroy(pool));
  return 0;
}

SUBJECT_FUNCTION CUmemoryPool import_pool(const Driver& cuda, CUmemoryPool pool) {
  int descriptor = -1;
  TRY(cuda.cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemoryPool imported = nullptr;
  TRY(cuda.cuMemPoolImportFromShareableHandle(&imported,
                                              reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  close(descriptor);
  return imported;
}

SUBJECT_FUNCTION std::size_t make_pool_import(const Driver& cuda, bool leak) {
  CUmemoryPool pool = create_pool(cuda);
  CUmemoryPool imported = import_pool(cuda, pool);
  if (!leak) TRY(cuda.cuMemPoolDestroy(imported));
  TRY(cuda.cuMemPoolDestroy(pool));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_ipc(const Driver& cuda, bool leak) {
  CUdeviceptr pointer = 0;
  TRY(cuda.cuMemAlloc_v2(&pointer, 11019));
  CUipcMemHandle handle;
  CUdeviceptr opened = 0;
  CUresult code = cuda.cuIpcGetMemHandle(&handle, pointer);
  if (code == CUDA_SUCCESS) code = cuda.cuIpcOpenMemHandle_v2(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (code == CUDA_SUCCESS && !leak) code = cuda.cuIpcCloseMemHandle(opened);
  TRY(cuda.cuMemFree_v2(pointer));
  TRY(code);  // NVIDIA's driver opens a handle in another process only
  return 0;
}

}  // namespace

std::vector<Kind> memory_kinds() {
  return {{"device", make_device},
          {"managed", make_managed},
          {"pitched", make_pitched},
          {"pinned_alloc_host", make_pinned_alloc_host},
          {"pinned_host_alloc", make_pinned_host_alloc},
          {"registered", make_registered},
          {"registered_old", make_registered_old},
          {"array", make_array},
          {"array_3d", make_array_3d},
          {"mipmapped", make_mipmapped},
          {"async", make_async},
          {"async_freed_at_once", make_async_freed_at_once},
          {"async_from_pool", make_async_from_pool},
          {"pool", make_pool},
          {"pool_import", make_pool_import},
          {"ipc", make_ipc}};
}

}  // namespace routes
