#include "interpose/causes/device_variables.h"

#include <cstring>

#include "interpose/driver/driver.h"
#include "interpose/driver/loaded_drivers.h"
#include "interpose/metering/metering_state.h"
#include "interpose/process/process.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

using format::AllocationRecord;
using format::ContextRecord;
using format::Kind;

// The handle of a live context; nullptr: it has ended.
CUcontext context_of(Process& process, std::uint32_t wanted) {
  CUcontext found = nullptr;
  std::uint32_t index = 0;
  process.dump.for_each_record<ContextRecord>(format::ChunkType::kContexts, [&](const ContextRecord& record) {
    if (index++ == wanted && record.state == format::ContextState::kAlive)
      found = reinterpret_cast<CUcontext>(record.handle);
  });
  return found;
}

bool is_alive(Process& process, CUcontext context) {
  bool alive = false;
  process.dump.for_each_record<ContextRecord>(format::ChunkType::kContexts, [&](const ContextRecord& record) {
    alive = alive ||
            (record.state == format::ContextState::kAlive && record.handle == reinterpret_cast<std::uint64_t>(context));
  });
  return alive;
}

}  // namespace

bool DeviceVariables::collect(Process& process, std::uint64_t budget) {
  names_ = map_items<VariableNames>(1);
  code_ = map_items<Code>(kMostCode);
  if (names_ == nullptr || code_ == nullptr) return false;
  const DriverUse use;
  read_architectures(&architectures_);
  budget_ = budget;
  bool all = architectures_.count != 0;
  process.dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
    if (!all || (record.kind != Kind::kModule && record.kind != Kind::kLibrary) || !is_live_now(record)) return;
    const bool is_library = record.kind == Kind::kLibrary;
    all = add_code(process, record.handle, is_library, is_library ? nullptr : context_of(process, record.context));
  });
  return all;
}

bool DeviceVariables::add_code(Process& process, std::uint64_t handle, bool is_library, CUcontext context) {
  Code code = {context, handle, is_library, false, names_->bytes, names_->count};
  const std::uint32_t images = names_->images;
  switch (code_of(process).names_of(handle, is_library, architectures_, &budget_, names_)) {
    case LoadedCode::Known::kNotAll:
      return false;
    case LoadedCode::Known::kNotUsed:
      return true;
    case LoadedCode::Known::kAll:
      break;
  }
  code.count = names_->count - code.count;
  code.several = names_->images - images > 1;
  if (code.count == 0) return true;
  return add_contexts(process, code);
}

// A module is in its context, a library in each in which code ran.
bool DeviceVariables::add_contexts(Process& process, Code code) {
  bool room = true;
  const auto add = [&](CUcontext context) {
    room = room && code_count_ != kMostCode;
    if (!room) return;
    code.context = context;
    code_[code_count_++] = code;
  };
  if (!code.is_library) {
    if (code.context != nullptr) add(code.context);
    return room;
  }
  const bool all = device_use_of(process).for_each_code_context([&](CUcontext context) {
    if (is_alive(process, context)) add(context);
  });
  return all && room;
}

bool DeviceVariables::find() {
  if (code_count_ == 0) return true;
  list_ = map_items<DeviceVariable>(kMost);
  if (list_ == nullptr) return false;
  for (std::uint32_t i = 0; i < code_count_; ++i) {
    if (!find_of(code_[i])) return false;
  }
  return true;
}

bool DeviceVariables::find_of(const Code& code) {
  const PushedContext pushed(code.context);
  if (!pushed.done()) return false;
  const char* name = names_->text + code.first;
  for (std::uint32_t i = 0; i < code.count; ++i, name += std::strlen(name) + 1) {
    CUdeviceptr begin = 0;
    std::size_t bytes = 0;
    const CUresult status =
        code.is_library ? driver().cuLibraryGetGlobal(&begin, &bytes, reinterpret_cast<CUlibrary>(code.handle), name)
                        : driver().cuModuleGetGlobal_v2(&begin, &bytes, reinterpret_cast<CUmodule>(code.handle), name);
    if (status == CUDA_ERROR_NOT_FOUND && code.several) continue;
    if (status != CUDA_SUCCESS || count_ == kMost || bytes > kMostBytes - bytes_) return false;
    bytes_ += bytes;
    list_[count_++] = {code.context, begin, bytes};
  }
  return true;
}

void DeviceVariables::close() {
  unmap_items(names_, 1);
  unmap_items(code_, kMostCode);
  unmap_items(list_, kMost);
  names_ = nullptr;
  code_ = nullptr;
  list_ = nullptr;
}

}  // namespace culprit
