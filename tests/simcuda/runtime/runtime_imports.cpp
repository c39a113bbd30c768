// Memory and synchronization objects of other processes and other APIs.
#include "tests/simcuda/runtime/runtime.h"

using simcudart::address_of;
using simcudart::as;
using simcudart::done;
using simcudart::failed;
using simcudart::legacy;
using simcudart::pointer_to;

RUNTIME_API(cudaIpcGetMemHandle)(cudaIpcMemHandle_t* out, void* pointer) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuIpcGetMemHandle(as<CUipcMemHandle*>(out), address_of(pointer)));
}

RUNTIME_API(cudaIpcOpenMemHandle)(void** out, cudaIpcMemHandle_t handle, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  CUresult status = legacy.cuIpcOpenMemHandle(&address, *as<CUipcMemHandle*>(&handle), flags);
  if (status == CUDA_SUCCESS) *out = pointer_to(address);
  return done(status);
}

RUNTIME_API(cudaIpcCloseMemHandle)(void* pointer) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuIpcCloseMemHandle(address_of(pointer)));
}

RUNTIME_API(cudaIpcGetEventHandle)(cudaIpcEventHandle_t* out, cudaEvent_t event) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuIpcGetEventHandle(as<CUipcEventHandle*>(out), event));
}

RUNTIME_API(cudaIpcOpenEventHandle)(cudaEvent_t* out, cudaIpcEventHandle_t handle) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuIpcOpenEventHandle(out, *as<CUipcEventHandle*>(&handle)));
}

RUNTIME_API(cudaImportExternalMemory)(cudaExternalMemory_t* out, const cudaExternalMemoryHandleDesc* descriptor) {
  RUNTIME_NEEDS_CONTEXT();
  if (descriptor == nullptr) return failed(cudaErrorInvalidValue);
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC handle{};
  handle.type = static_cast<CUexternalMemoryHandleType>(descriptor->type);
  handle.handle.win32.handle = descriptor->handle.win32.handle;
  handle.handle.win32.name = descriptor->handle.win32.name;
  handle.size = descriptor->size;
  handle.flags = descriptor->flags;
  return done(legacy.cuImportExternalMemory(as<CUexternalMemory*>(out), &handle));
}

RUNTIME_API(cudaExternalMemoryGetMappedBuffer)
(void** out, cudaExternalMemory_t memory, const cudaExternalMemoryBufferDesc* descriptor) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr || descriptor == nullptr) return failed(cudaErrorInvalidValue);
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer{};
  buffer.offset = descriptor->offset;
  buffer.size = descriptor->size;
  buffer.flags = descriptor->flags;
  CUdeviceptr address = 0;
  CUresult status = legacy.cuExternalMemoryGetMappedBuffer(&address, as<CUexternalMemory>(memory), &buffer);
  if (status == CUDA_SUCCESS) *out = pointer_to(address);
  return done(status);
}

RUNTIME_API(cudaDestroyExternalMemory)(cudaExternalMemory_t memory) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuDestroyExternalMemory(as<CUexternalMemory>(memory)));
}

RUNTIME_API(cudaImportExternalSemaphore)
(cudaExternalSemaphore_t* out, const cudaExternalSemaphoreHandleDesc* descriptor) {
  RUNTIME_NEEDS_CONTEXT();
  if (descriptor == nullptr) return failed(cudaErrorInvalidValue);
  CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC handle{};
  handle.type = static_cast<CUexternalSemaphoreHandleType>(descriptor->type);
  handle.handle.win32.handle = descriptor->handle.win32.handle;
  handle.handle.win32.name = descriptor->handle.win32.name;
  handle.flags = descriptor->flags;
  return done(legacy.cuImportExternalSemaphore(as<CUexternalSemaphore*>(out), &handle));
}

RUNTIME_API(cudaDestroyExternalSemaphore)(cudaExternalSemaphore_t semaphore) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuDestroyExternalSemaphore(as<CUexternalSemaphore>(semaphore)));
}
