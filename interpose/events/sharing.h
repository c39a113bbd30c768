// Memory that processes hand to one another: exports and imports, with which the report joins the dumps of a job.
//
// Measured on an H200 (driver 580): the bytes of an IPC handle and of an exported pool pointer are the same for each
// export of an allocation, and other ones for each other allocation. A file descriptor has no identity: all of them are
// /dev/nvidiactl, with one inode.
//
// Every function is thread-safe, keeps errno, never throws, and does nothing when recording is off.
#pragma once

#include <cuda.h>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/format/dump_format.h"

namespace culprit {

struct Process;

// The handle that one process gets from the driver and gives to another one.
struct SharedHandle {
  format::SharingType type = format::SharingType::kNone;  // kNone: a type that is not known
  std::uint64_t key = 0;                                  // see SharingRecord
};

// 0 where a pointer is null.
inline std::uint64_t key_of_handle(const void* handle, std::size_t bytes) {
  return handle == nullptr ? 0 : format::sharing_key(handle, bytes);
}

inline SharedHandle ipc_handle(const CUipcMemHandle* handle) {
  return {format::SharingType::kIpcHandle, key_of_handle(handle, sizeof(*handle))};
}
inline SharedHandle pool_pointer(const CUmemPoolPtrExportData* data) {
  return {format::SharingType::kPoolPointer, key_of_handle(data, sizeof(*data))};
}
// `handle`: where a descriptor is stored, or a descriptor; or the address of a fabric handle.
inline SharedHandle shareable_handle(const void* handle, CUmemAllocationHandleType type) {
  if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return {format::SharingType::kFileDescriptor, 0};
  if (type != CU_MEM_HANDLE_TYPE_FABRIC) return {};
  return {format::SharingType::kFabricHandle, key_of_handle(handle, sizeof(CUmemFabricHandle))};
}

// The memory with this handle (of the space of `kind`), or around this address, was exported.
CULPRIT_COLD void note_exported(Api api, format::Kind kind, std::uint64_t handle, const SharedHandle& shared);

// The record with this handle was made by an import, or an import counted one more reference to it.
CULPRIT_COLD void note_imported(Api api, format::Kind kind, std::uint64_t handle, const SharedHandle& shared);

// The memory of a record with kFlagShared was freed, or its mapping closed. `stack`: of that call.
CULPRIT_COLD void note_sharing_ended(Process& process, format::Ref allocation, format::Ref stack);

}  // namespace culprit
