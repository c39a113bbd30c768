// Virtual memory management and memory of other processes, which have reference counts.
//
// cuMemCreate makes physical memory and one handle to it. cuMemMap makes it visible at an address; cuMemRelease
// releases a handle. The memory is freed when the last handle and the last mapping are released, in either order. It is
// counted once, where it was created; a mapping and a reservation are 0 bytes.
#include "interpose/call_stack/current_stack.h"
#include "interpose/events/events.h"
#include "interpose/events/probes.h"
#include "interpose/events/record_ends.h"
#include "interpose/events/sharing.h"
#include "interpose/hooks/hooks.h"
#include "interpose/process/process.h"
#include "interpose/process/recording.h"

namespace culprit {
namespace {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

constexpr std::uint8_t kMostReferences = 255;
constexpr std::uint16_t kMostMappings = 65535;

std::uint8_t vmm_space() { return space_of(Kind::kVmmPhysical); }

// Calls use(process, ref, record) for the live record of this handle, with the reference counts locked. Returns false
// when there is none, else the result of `use`.
template <typename Use>
bool with_record(std::uint8_t space, std::uint64_t handle, Use use) {
  bool used = false;
  record_on_own_stack([&](Process& process) {
    SpinGuard guard(process.hooks.references_lock);
    Ref ref = process.tables.live.find(space, handle, format::kNoDevice, process.dump);
    used = ref != 0 && use(process, ref, *process.dump.at<AllocationRecord>(ref));
  });
  return used;
}

// Adds a reference to a known handle. Returns false for an unknown one.
bool add_reference(std::uint8_t space, std::uint64_t handle) {
  return with_record(space, handle, [](Process& process, Ref, AllocationRecord& record) {
    if (record.handle_references < kMostReferences) {
      ++record.handle_references;
    } else {
      add_counter(process.dump.header()->dropped_others, 1);
    }
    return true;
  });
}

// Removes a reference unless it is the last one. Returns false for the last one or an unknown handle.
bool drop_reference_but_last(std::uint8_t space, std::uint64_t handle) {
  return with_record(space, handle, [](Process&, Ref, AllocationRecord& record) {
    if (record.handle_references <= 1) return false;
    // A count that reached the limit stays there: the memory is never taken for released too early.
    if (record.handle_references < kMostReferences) --record.handle_references;
    return true;
  });
}

// Releases the last handle while the memory is still mapped: it stays live without a handle. Returns false when it is
// not mapped.
bool release_mapped(std::uint64_t handle) {
  return with_record(vmm_space(), handle, [](Process& process, Ref ref, AllocationRecord& record) {
    if (record.mappings == 0) return false;
    record.handle_references = 0;
    record.flags |= format::kFlagHandleReleased;
    process.tables.live.rekey(ref, 0, false, process.dump);
    return true;
  });
}

void restore_released(std::uint64_t handle, Ref physical) {
  record_on_own_stack([&](Process& process) {
    SpinGuard guard(process.hooks.references_lock);
    auto* record = process.dump.at<AllocationRecord>(physical);
    record->handle_references = 1;
    record->flags &= static_cast<std::uint8_t>(~format::kFlagHandleReleased);
    process.tables.live.rekey(physical, handle, true, process.dump);
  });
}

Ref find_physical(std::uint64_t handle) {
  Ref found = 0;
  record_on_own_stack([&](Process& process) {
    found = process.tables.live.find(vmm_space(), handle, format::kNoDevice, process.dump);
  });
  return found;
}

void note_mapping(CUdeviceptr address, std::size_t size, std::uint64_t handle) {
  on_own_stack([&] {
    Ref physical = 0;
    record_on_own_stack([&](Process& process) {
      if ((process.mode.load(std::memory_order_relaxed) & kModeOff) != 0) return;
      SpinGuard guard(process.hooks.references_lock);
      physical = process.tables.live.find(vmm_space(), handle, format::kNoDevice, process.dump);
      if (physical == 0) return;
      auto* record = process.dump.at<AllocationRecord>(physical);
      if (record->mappings < kMostMappings) {
        ++record->mappings;
      } else {
        add_counter(process.dump.header()->dropped_others, 1);
      }
      if ((record->flags & format::kFlagShared) != 0) process.tables.sharings.note_mapped(physical, size, process.dump);
    });
    note_mapping_made({Api::cuMemMap, Kind::kVmmMapping, address, 0, size}, physical);
  });
}

void drop_mapping(Process& process, Ref mapping) {
  AllocationRecord record = *process.dump.at<AllocationRecord>(mapping);
  count_freed(process, record);
  process.tables.live.retire(mapping, process.dump);
  if (record.physical == 0) return;
  SpinGuard guard(process.hooks.references_lock);
  auto* physical = process.dump.at<AllocationRecord>(record.physical);
  // A count that reached the limit stays there: the memory is never taken for unmapped too early.
  if (physical->mappings > 0 && physical->mappings < kMostMappings) --physical->mappings;
  if (physical->mappings == 0 && (physical->flags & format::kFlagHandleReleased) != 0) {
    if ((physical->flags & format::kFlagShared) != 0)
      note_sharing_ended(process, record.physical, current_stack(process));
    probe_free(*physical, record.physical);
    count_freed(process, *physical);
    process.tables.live.retire(record.physical, process.dump);
  }
}

// The mappings that a call is about to unmap. Only a few are kept on the caller's stack, which may be small.
class TakenMappings {
 public:
  void take(CUdeviceptr begin, std::size_t size) {
    record_on_own_stack([&](Process& process) {
      generation_ = process.generation;
      for (CUdeviceptr next = begin; next < begin + size && has_room();) {
        Ref mapping = process.tables.live.take(
            space_of(Kind::kVmmMapping), next, [] { return format::kNoDevice; }, process.dump);
        if (mapping == 0) break;
        refs()[count_++] = mapping;
        next += process.dump.at<AllocationRecord>(mapping)->extra;
      }
    });
  }
  void finish(CUresult status) {
    record_on_own_stack([&](Process& process) {
      for (int i = 0; i < count_ && process.generation == generation_; ++i) {
        if (status == CUDA_SUCCESS) {
          drop_mapping(process, refs()[i]);
        } else {
          process.tables.live.put_back(refs()[i], process.dump);
        }
      }
    });
    if (many_ != nullptr) unmap_private(many_, sizeof(Ref) * kMany);
  }
  int count() const { return count_; }

 private:
  static constexpr int kFew = 16;
  static constexpr int kMany = 65536;
  Ref* refs() { return many_ != nullptr ? many_ : few_; }
  bool has_room() {
    if (count_ < (many_ != nullptr ? kMany : kFew)) return true;
    int error = 0;
    if (many_ == nullptr) many_ = static_cast<Ref*>(map_private(sizeof(Ref) * kMany, &error));
    if (many_ == nullptr || count_ == kMany) return false;
    for (int i = 0; i < count_; ++i) many_[i] = few_[i];
    return true;
  }

  Ref few_[kFew];
  Ref* many_ = nullptr;
  int count_ = 0;
  std::uint32_t generation_ = 0;  // of the process that they belong to; differs in a fork child
};

template <typename Call>
CUresult open_ipc(Api api, Call call, CUdeviceptr* pdptr, const CUipcMemHandle& shared, unsigned int flags) {
  CUresult status = call(pdptr, shared, flags);
  if (status != CUDA_SUCCESS || pdptr == nullptr) return status;
  // When a handle is opened again, the driver counts it and returns the same address.
  if (!add_reference(space_of(Kind::kIpcMemory), *pdptr)) note_made({api, Kind::kIpcMemory, *pdptr, 0, 0});
  note_imported(api, Kind::kIpcMemory, *pdptr, ipc_handle(&shared));
  return status;
}

}  // namespace

namespace custom {

CUresult cuMemCreate(decltype(&::cuMemCreate) call, CUmemGenericAllocationHandle* handle, size_t size,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  CUresult status = call(handle, size, prop, flags);
  if (status == CUDA_SUCCESS && handle != nullptr) {
    note_made({Api::cuMemCreate, Kind::kVmmPhysical, *handle, size, 0, place_of(prop)});
  }
  note_result(Api::cuMemCreate, status, size);
  return status;
}

CUresult cuMulticastCreate(decltype(&::cuMulticastCreate) call, CUmemGenericAllocationHandle* mcHandle,
                           const CUmulticastObjectProp* prop) {
  CUresult status = call(mcHandle, prop);
  if (status == CUDA_SUCCESS && mcHandle != nullptr) {
    note_made({Api::cuMulticastCreate, Kind::kMulticast, *mcHandle, 0, prop == nullptr ? 0 : prop->size});
  }
  return status;
}

CUresult cuMemImportFromShareableHandle(decltype(&::cuMemImportFromShareableHandle) call,
                                        CUmemGenericAllocationHandle* handle, void* osHandle,
                                        CUmemAllocationHandleType shHandleType) {
  CUresult status = call(handle, osHandle, shHandleType);
  if (status != CUDA_SUCCESS || handle == nullptr) return status;
  if (!add_reference(vmm_space(), *handle))
    note_made({Api::cuMemImportFromShareableHandle, Kind::kVmmImported, *handle, 0, 0});
  note_imported(Api::cuMemImportFromShareableHandle, Kind::kVmmImported, *handle,
                shareable_handle(osHandle, shHandleType));
  return status;
}

CUresult cuMemRetainAllocationHandle(decltype(&::cuMemRetainAllocationHandle) call,
                                     CUmemGenericAllocationHandle* handle, void* addr) {
  CUresult status = call(handle, addr);
  if (status != CUDA_SUCCESS || handle == nullptr || add_reference(vmm_space(), *handle)) return status;
  Ref physical = 0;
  record_on_own_stack([&](Process& process) {
    Ref mapping = process.tables.live.find_containing(space_of(Kind::kVmmMapping),
                                                      reinterpret_cast<std::uint64_t>(addr), process.dump);
    if (mapping != 0) physical = process.dump.at<AllocationRecord>(mapping)->physical;
  });
  if (physical != 0) restore_released(*handle, physical);
  return status;
}

CUresult cuMemRelease(decltype(&::cuMemRelease) call, CUmemGenericAllocationHandle handle) {
  if (drop_reference_but_last(vmm_space(), handle)) {
    CUresult status = call(handle);
    if (status != CUDA_SUCCESS) add_reference(vmm_space(), handle);
    return status;
  }
  Ref physical = find_physical(handle);
  if (physical != 0 && release_mapped(handle)) {
    CUresult status = call(handle);
    if (status != CUDA_SUCCESS) restore_released(handle, physical);
    return status;
  }
  Ending ending(Api::cuMemRelease, Kind::kVmmPhysical, handle);
  CUresult status = call(handle);
  ending.finish(status);
  return status;
}

CUresult cuMemMap(decltype(&::cuMemMap) call, CUdeviceptr ptr, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  CUresult status = call(ptr, size, offset, handle, flags);
  if (status == CUDA_SUCCESS) note_mapping(ptr, size, handle);
  return status;
}

// One call may unmap several neighbouring mappings.
CUresult cuMemUnmap(decltype(&::cuMemUnmap) call, CUdeviceptr ptr, size_t size) {
  TakenMappings taken;
  taken.take(ptr, size);
  if (taken.count() == 0) {
    Ending ending(Api::cuMemUnmap, Kind::kVmmMapping, ptr);
    CUresult status = call(ptr, size);
    ending.finish(status);
    return status;
  }
  CUresult status = call(ptr, size);
  taken.finish(status);
  return status;
}

CUresult cuIpcOpenMemHandle(decltype(&::cuIpcOpenMemHandle) call, CUdeviceptr* pdptr, CUipcMemHandle handle,
                            unsigned int flags) {
  return open_ipc(Api::cuIpcOpenMemHandle, call, pdptr, handle, flags);
}
CUresult cuIpcOpenMemHandle_v2(decltype(&::cuIpcOpenMemHandle_v2) call, CUdeviceptr* pdptr, CUipcMemHandle handle,
                               unsigned int flags) {
  return open_ipc(Api::cuIpcOpenMemHandle_v2, call, pdptr, handle, flags);
}

CUresult cuMemPoolImportPointer(decltype(&::cuMemPoolImportPointer) call, CUdeviceptr* ptr_out, CUmemoryPool pool,
                                CUmemPoolPtrExportData* shareData) {
  CUresult status = call(ptr_out, pool, shareData);
  if (status != CUDA_SUCCESS || ptr_out == nullptr) return status;
  note_made({Api::cuMemPoolImportPointer, Kind::kIpcMemory, *ptr_out, 0, handle(pool)});
  note_imported(Api::cuMemPoolImportPointer, Kind::kIpcMemory, *ptr_out, pool_pointer(shareData));
  return status;
}

CUresult cuIpcCloseMemHandle(decltype(&::cuIpcCloseMemHandle) call, CUdeviceptr dptr) {
  if (drop_reference_but_last(space_of(Kind::kIpcMemory), dptr)) {
    CUresult status = call(dptr);
    if (status != CUDA_SUCCESS) add_reference(space_of(Kind::kIpcMemory), dptr);
    return status;
  }
  Ending ending(Api::cuIpcCloseMemHandle, Kind::kIpcMemory, dptr);
  CUresult status = call(dptr);
  ending.finish(status);
  return status;
}

}  // namespace custom
}  // namespace culprit
