// IPC handles, external memory and external semaphores.
//
// A memory handle opened in the process that made it shows the same memory at a second address. The real driver refuses
// that; here it is allowed, so that a test needs one process only. In another process it gets memory of its own of the
// same size: contents are not shared between processes.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "tests/simcuda/driver/arrays.h"
#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/streams.h"
#include "tests/simcuda/driver/vmm.h"

namespace simcuda {
namespace {

struct ExternalMemory : Object {
  static constexpr ObjectType kType = ObjectType::kExternalMemory;
  explicit ExternalMemory(Context* memory_context) : Object(kType, memory_context) {}
  void release(DriverState&) override {
    if (descriptor >= 0) close(descriptor);
  }

  int descriptor = -1;  // owned: an import takes the descriptor over
  std::size_t bytes = 0;
};

struct ExternalSemaphore : Object {
  static constexpr ObjectType kType = ObjectType::kExternalSemaphore;
  explicit ExternalSemaphore(Context* semaphore_context) : Object(kType, semaphore_context) {}
  void release(DriverState&) override {
    if (descriptor >= 0) close(descriptor);
  }

  int descriptor = -1;
};

constexpr std::uint64_t kMemoryMagic = 0x6d656d636d6973;
constexpr std::uint64_t kEventMagic = 0x6576656d6973;

struct MemoryHandle {
  std::uint64_t magic;
  std::int64_t pid;
  std::uint64_t address;
  std::uint64_t bytes;
  std::int64_t device;
  std::uint64_t id;  // tells the memory from later memory at its address
};
static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));

struct EventHandle {
  std::uint64_t magic;
  std::int64_t pid;
  std::uint64_t flags;
};
static_assert(sizeof(EventHandle) <= sizeof(CUipcEventHandle));

CUresult open_memory(Call& call, CUdeviceptr* out, const MemoryHandle& handle) {
  Device& device = call.device();
  bool own = handle.pid == getpid();
  for (auto& [address, allocation] : device.memory) {
    if (own && allocation.kind == MemoryKind::kIpcImport && allocation.ipc_source == handle.id) {
      ++allocation.ipc_opens;
      *out = address;
      return CUDA_SUCCESS;
    }
  }
  Allocation* import = nullptr;
  if (own) {
    Allocation* source = find_allocation(call.state(), static_cast<int>(handle.device), handle.address);
    if (source == nullptr || source->device != device.ordinal) return CUDA_ERROR_INVALID_VALUE;
    import = add_alias(call.state(), device, MemoryKind::kIpcImport, handle.address, handle.bytes, &call.context());
  } else {
    import = add_allocation(call.state(), device, MemoryKind::kIpcImport, round_up(handle.bytes, kPageBytes),
                            kPageBytes, 0, &call.context());
    if (import != nullptr) import->bytes = handle.bytes;
  }
  if (import == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  import->ipc_source = handle.id;
  import->ipc_opens = 1;
  *out = import->address;
  return CUDA_SUCCESS;
}

bool is_descriptor(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

}  // namespace
}  // namespace simcuda

using simcuda::Allocation;
using simcuda::ExternalMemory;
using simcuda::ExternalSemaphore;
using simcuda::MemoryKind;

SIM(cuIpcGetMemHandle)(CUipcMemHandle* out, CUdeviceptr address) {
  SIM_CALL(kContext);
  Allocation* allocation = simcuda::find_containing(call.state(), call.context().device, address);
  if (out == nullptr || allocation == nullptr || allocation->kind != MemoryKind::kDevice)
    return CUDA_ERROR_INVALID_VALUE;
  simcuda::MemoryHandle handle{simcuda::kMemoryMagic, getpid(),           allocation->address,
                               allocation->bytes,     allocation->device, allocation->id};
  memset(out, 0, sizeof(*out));
  memcpy(out, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

SIM(cuIpcOpenMemHandle_v2)(CUdeviceptr* out, CUipcMemHandle packed, unsigned flags) {
  SIM_CALL(kContext);
  simcuda::MemoryHandle handle;
  memcpy(&handle, &packed, sizeof(handle));
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  if (handle.magic != simcuda::kMemoryMagic) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::open_memory(call, out, handle);
}

SIM(cuIpcCloseMemHandle)(CUdeviceptr address) {
  SIM_CALL(kContext);
  Allocation* allocation = simcuda::find_allocation(call.state(), call.context().device, address);
  if (allocation == nullptr || allocation->kind != MemoryKind::kIpcImport) return CUDA_ERROR_INVALID_VALUE;
  if (--allocation->ipc_opens == 0) simcuda::release_allocation(call.state(), *allocation);
  return CUDA_SUCCESS;
}

SIM(cuIpcGetEventHandle)(CUipcEventHandle* out, CUevent event_handle) {
  SIM_CALL(kContext);
  simcuda::Event* event = call.state().find<simcuda::Event>(event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || (event->flags & CU_EVENT_INTERPROCESS) == 0) return CUDA_ERROR_INVALID_VALUE;
  simcuda::EventHandle handle{simcuda::kEventMagic, getpid(), event->flags};
  memset(out, 0, sizeof(*out));
  memcpy(out, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

SIM(cuIpcOpenEventHandle)(CUevent* out, CUipcEventHandle packed) {
  SIM_CALL(kContext);
  simcuda::EventHandle handle;
  memcpy(&handle, &packed, sizeof(handle));
  if (out == nullptr || handle.magic != simcuda::kEventMagic) return CUDA_ERROR_INVALID_VALUE;
  simcuda::Event* event = call.state().add(new simcuda::Event(&call.context()));
  event->flags = static_cast<unsigned>(handle.flags);
  *out = reinterpret_cast<CUevent>(event);
  return CUDA_SUCCESS;
}

SIM(cuImportExternalMemory)(CUexternalMemory* out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* descriptor) {
  SIM_CALL(kContext);
  if (out == nullptr || descriptor == nullptr || descriptor->size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (descriptor->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) return CUDA_ERROR_NOT_SUPPORTED;
  if (!simcuda::is_descriptor(descriptor->handle.fd)) return CUDA_ERROR_INVALID_VALUE;
  ExternalMemory* memory = call.state().add(new ExternalMemory(&call.context()));
  memory->descriptor = descriptor->handle.fd;
  memory->bytes = descriptor->size;
  *out = reinterpret_cast<CUexternalMemory>(memory);
  return CUDA_SUCCESS;
}

SIM(cuExternalMemoryGetMappedBuffer)
(CUdeviceptr* out, CUexternalMemory handle, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* buffer) {
  SIM_CALL(kContext);
  ExternalMemory* memory = call.state().find<ExternalMemory>(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || buffer == nullptr || buffer->size == 0 || buffer->offset + buffer->size > memory->bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::size_t pages = simcuda::round_up(buffer->size, simcuda::kPageBytes);
  Allocation* mapped = simcuda::add_allocation(call.state(), call.device(), MemoryKind::kExternalBuffer, pages,
                                               simcuda::kPageBytes, 0, &call.context());
  if (mapped == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  mapped->bytes = buffer->size;
  // A descriptor from a cuMemExportToShareableHandle of this process refers to its memory; any other, to fresh memory.
  auto exported = call.state().exported.find(simcuda::descriptor_inode(memory->descriptor));
  simcuda::Physical* physical =
      exported == call.state().exported.end() ? nullptr : call.state().find<simcuda::Physical>(exported->second);
  if (physical != nullptr && buffer->offset % simcuda::kPageBytes == 0 && buffer->offset + pages <= physical->bytes) {
    call.device().space->alias(mapped->address, static_cast<char*>(physical->backing) + buffer->offset, pages);
  }
  *out = mapped->address;
  return CUDA_SUCCESS;
}

SIM(cuExternalMemoryGetMappedMipmappedArray)
(CUmipmappedArray* out, CUexternalMemory handle, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* descriptor) {
  SIM_CALL(kContext);
  if (call.state().find<ExternalMemory>(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  simcuda::MipmappedArray* mipmapped = nullptr;
  CUresult status = simcuda::make_mipmapped_array(call.state(), call.context(), descriptor->arrayDesc,
                                                  descriptor->numLevels, false, &mipmapped);
  if (status == CUDA_SUCCESS) *out = reinterpret_cast<CUmipmappedArray>(mipmapped);
  return status;
}

SIM(cuDestroyExternalMemory)(CUexternalMemory handle) {
  SIM_CALL(kInit);
  ExternalMemory* memory = call.state().find<ExternalMemory>(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.state().destroy(memory);
  return CUDA_SUCCESS;
}

SIM(cuImportExternalSemaphore)(CUexternalSemaphore* out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC* descriptor) {
  SIM_CALL(kContext);
  if (out == nullptr || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (descriptor->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD) return CUDA_ERROR_NOT_SUPPORTED;
  if (!simcuda::is_descriptor(descriptor->handle.fd)) return CUDA_ERROR_INVALID_VALUE;
  ExternalSemaphore* semaphore = call.state().add(new ExternalSemaphore(&call.context()));
  semaphore->descriptor = descriptor->handle.fd;
  *out = reinterpret_cast<CUexternalSemaphore>(semaphore);
  return CUDA_SUCCESS;
}

SIM(cuDestroyExternalSemaphore)(CUexternalSemaphore handle) {
  SIM_CALL(kInit);
  ExternalSemaphore* semaphore = call.state().find<ExternalSemaphore>(handle);
  if (semaphore == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.state().destroy(semaphore);
  return CUDA_SUCCESS;
}
