#include "tests/simcuda/driver/own_memory.h"

#include <cstdlib>

namespace simcuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t megabytes(const char* name, std::size_t measured) {
  const char* text = getenv(name);
  return (text == nullptr ? measured : static_cast<std::size_t>(strtol(text, nullptr, 10))) << 20;
}

bool take(DriverState& state, Device& device, std::size_t bytes) {
  if (bytes > device.available() && !make_room(state, device, bytes)) return false;
  device.used += bytes;
  return true;
}

CUresult take_for(DriverState& state, Context& context, std::size_t bytes) {
  if (!take(state, *state.devices[context.device], bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  context.own_bytes += bytes;
  return CUDA_SUCCESS;
}

// For a kernel it never shrinks; a lower limit gives some back.
CUresult take_local_memory(DriverState& state, Context& context, std::size_t bytes_a_thread) {
  if (!state.own_memory.on || bytes_a_thread <= context.local_bytes) return CUDA_SUCCESS;
  const std::size_t grow = (bytes_a_thread - context.local_bytes) * kMultiprocessorCount * kThreadsPerMultiprocessor;
  CUresult status = take_for(state, context, grow);
  if (status == CUDA_SUCCESS) context.local_bytes = bytes_a_thread;
  return status;
}

}  // namespace

OwnMemory read_own_memory() {
  OwnMemory own;
  const char* text = getenv("SIMCUDA_OWN_MEMORY");
  own.on = text != nullptr && *text == '1';
  if (!own.on) return own;
  own.context = megabytes("SIMCUDA_CONTEXT_MB", 527);
  own.next_context = megabytes("SIMCUDA_NEXT_CONTEXT_MB", 524);
  own.module = megabytes("SIMCUDA_MODULE_MB", 2);
  own.stream = 54 * kMiB / 100;
  own.heap_extra = 2 * kMiB;
  own.wide_node = 546 * kMiB / 5000;
  own.chained_node = 14 * kMiB / 5000;
  const char* info = getenv("SIMCUDA_MEMORY_INFO_US");
  own.info_us = info == nullptr ? 0 : static_cast<unsigned>(atoi(info));
  return own;
}

CUresult take_context(DriverState& state, Context& context) {
  if (!state.own_memory.on) return CUDA_SUCCESS;
  Device& device = *state.devices[context.device];
  CUresult status =
      take_for(state, context, device.contexts == 0 ? state.own_memory.context : state.own_memory.next_context);
  if (status != CUDA_SUCCESS) return status;
  ++device.contexts;
  context.local_bytes = 1024;
  return CUDA_SUCCESS;
}

CUresult take_module(DriverState& state, Context& context, std::size_t* taken) {
  if (*taken != 0) return CUDA_SUCCESS;
  CUresult status = take_for(state, context, state.own_memory.module);
  if (status == CUDA_SUCCESS) *taken = state.own_memory.module;
  return status;
}

CUresult take_stream(DriverState& state, Context& context) {
  if (!state.own_memory.on) return CUDA_SUCCESS;
  Device& device = *state.devices[context.device];
  if (device.idle_streams > 0) {
    --device.idle_streams;
    return CUDA_SUCCESS;
  }
  if (!take(state, device, state.own_memory.stream)) return CUDA_ERROR_OUT_OF_MEMORY;
  device.stream_bytes += state.own_memory.stream;
  return CUDA_SUCCESS;
}

void return_stream(DriverState& state, Context& context) {
  if (state.own_memory.on) ++state.devices[context.device]->idle_streams;
}

CUresult take_graph(DriverState& state, Device& device, std::size_t bytes) {
  if (device.exec_used + bytes > device.exec_bytes) {
    const std::size_t grow = device.exec_used + bytes - device.exec_bytes;
    if (!take(state, device, grow)) return CUDA_ERROR_OUT_OF_MEMORY;
    device.exec_bytes += grow;
  }
  device.exec_used += bytes;
  return CUDA_SUCCESS;
}

void return_graph(Device& device, std::size_t bytes) { device.exec_used -= bytes; }

void return_bytes(Device& device, std::size_t bytes) { device.used -= bytes; }

std::size_t limit_of(const Context& context, CUlimit limit) {
  auto found = context.limits.find(limit);
  if (found != context.limits.end()) return found->second;
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      return 1024;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      return 7340032;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      return 8388608;
    default:
      return 0;
  }
}

CUresult take_for_limit(DriverState& state, Context& context, CUlimit limit, std::size_t value) {
  if (limit != CU_LIMIT_STACK_SIZE || !state.own_memory.on) return CUDA_SUCCESS;
  if (value < context.local_bytes) {
    const std::size_t shrink = (context.local_bytes - value) * kMultiprocessorCount * kThreadsPerMultiprocessor;
    state.devices[context.device]->used -= shrink;
    context.own_bytes -= shrink;
    context.local_bytes = value;
  }
  return take_local_memory(state, context, value);
}

std::size_t local_bytes_of(const std::string& name) {
  static const std::string kWord = "local_";
  const std::size_t at = name.find(kWord);
  return at == std::string::npos ? 0 : strtoul(name.c_str() + at + kWord.size(), nullptr, 10);
}

CUresult take_for_kernel(DriverState& state, Context& context, const std::string& name) {
  if (!state.own_memory.on) return CUDA_SUCCESS;
  CUresult status = take_local_memory(state, context, local_bytes_of(name));
  if (status == CUDA_SUCCESS && !context.has_fifo && name.find("printf") != std::string::npos) {
    status = take_for(state, context, round_up(limit_of(context, CU_LIMIT_PRINTF_FIFO_SIZE), kBlockBytes));
    context.has_fifo = status == CUDA_SUCCESS;
  }
  if (status == CUDA_SUCCESS && !context.has_heap && name.find("heap") != std::string::npos) {
    status =
        take_for(state, context,
                 round_up(limit_of(context, CU_LIMIT_MALLOC_HEAP_SIZE), kBlockBytes) + state.own_memory.heap_extra);
    context.has_heap = status == CUDA_SUCCESS;
  }
  return status;
}

void return_context(DriverState& state, Context& context) {
  if (!state.own_memory.on || context.own_bytes == 0) return;
  Device& device = *state.devices[context.device];
  device.used -= context.own_bytes;
  context.own_bytes = 0;
  context.has_fifo = context.has_heap = false;
  if (--device.contexts != 0) return;
  device.used -= device.stream_bytes + device.exec_bytes;
  device.stream_bytes = device.exec_bytes = device.exec_used = device.idle_streams = 0;
}

std::size_t block_bytes(const DriverState& state, Device& device, std::size_t bytes, bool back) {
  if (!state.own_memory.on) return round_up(bytes, 512);
  if (bytes >= kBlockBytes / 2) return round_up(bytes, kBlockBytes);
  const std::size_t before = round_up(device.small_bytes, kBlockBytes);
  if (back) {
    device.small_bytes -= round_up(bytes, 512);
    return before - round_up(device.small_bytes, kBlockBytes);
  }
  device.small_bytes += round_up(bytes, 512);
  return round_up(device.small_bytes, kBlockBytes) - before;
}

}  // namespace simcuda
