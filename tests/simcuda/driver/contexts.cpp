// Contexts: created, primary and green ones, and the stack of current contexts of each thread.
#include <cstring>

#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/own_memory.h"
#include "tests/simcuda/driver/pools.h"

namespace simcuda {
namespace {

struct GreenContext : Object {
  static constexpr ObjectType kType = ObjectType::kGreenContext;
  GreenContext() : Object(kType) {}
  void release(DriverState& state) override;

  Context* inner = nullptr;
  CUdevResource resource{};
  std::uint64_t id = 0;
};

struct ResourceDescriptor : Object {
  static constexpr ObjectType kType = ObjectType::kResourceDescriptor;
  ResourceDescriptor() : Object(kType) {}

  CUdevResource resource{};
};

constexpr unsigned kMultiprocessors = kMultiprocessorCount;

CUcontext handle_of(Context* context) { return reinterpret_cast<CUcontext>(context); }

Context* make_context(DriverState& state, int device, unsigned flags) {
  Context* context = state.add(new Context);
  context->device = device;
  context->flags = flags;
  context->serial = state.next_serial++;
  return context;
}

void push(Context& context) { thread_state().stack.push_back({&context, context.serial}); }

CUresult create(Call& call, CUcontext* out, unsigned flags, CUdevice device) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (call.device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Context* context = make_context(call.state(), device, flags);
  if (CUresult status = take_context(call.state(), *context)) {
    call.state().destroy(context);
    return status;
  }
  push(*context);
  *out = handle_of(context);
  return CUDA_SUCCESS;
}

// The context of a handle, if it can be used now.
Context* find_usable(DriverState& state, CUcontext handle) {
  Context* context = state.find<Context>(handle);
  return context != nullptr && context->active ? context : nullptr;
}

void destroy_context(DriverState& state, Context& context) {
  state.empty_context(context);
  std::vector<CurrentContext>& stack = thread_state().stack;
  // It stops being current in the calling thread; in other threads it stays current as a destroyed one.
  if (!stack.empty() && stack.back().context == &context) stack.pop_back();
  state.destroy(&context);
}

// The primary context's contents go; its handle stays, and a later retain makes it usable again.
void deactivate_primary(DriverState& state, Device& device) {
  if (device.primary == nullptr || !device.primary->active) return;
  state.empty_context(*device.primary);
  device.primary->active = false;
  for (Pool* pool : device.pools) trim_pool(state, *pool, 0);
}

CUdevResource multiprocessors(unsigned count) {
  CUdevResource resource;
  memset(&resource, 0, sizeof(resource));
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  resource.sm.smCount = count;
  return resource;
}

void GreenContext::release(DriverState& state) {
  if (inner == nullptr) return;
  state.empty_context(*inner);
  state.destroy(inner);
}

}  // namespace
}  // namespace simcuda

using simcuda::Call;
using simcuda::Context;
using simcuda::CurrentContext;
using simcuda::Device;
using simcuda::GreenContext;
using simcuda::handle_of;
using simcuda::ResourceDescriptor;

SIM(cuCtxCreate_v2)(CUcontext* out, unsigned flags, CUdevice device) {
  SIM_CALL(kInit);
  return simcuda::create(call, out, flags, device);
}

SIM(cuCtxCreate_v3)(CUcontext* out, CUexecAffinityParam*, int, unsigned flags, CUdevice device) {
  SIM_CALL(kInit);
  return simcuda::create(call, out, flags, device);
}

SIM(cuCtxCreate_v4)(CUcontext* out, CUctxCreateParams*, unsigned flags, CUdevice device) {
  SIM_CALL(kInit);
  return simcuda::create(call, out, flags, device);
}

SIM(cuCtxDestroy_v2)(CUcontext handle) {
  SIM_CALL(kInit);
  Context* context = call.state().find<Context>(handle);
  if (context == nullptr || context->primary || context->green != nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  simcuda::destroy_context(call.state(), *context);
  return CUDA_SUCCESS;
}

SIM(cuCtxAttach)(CUcontext* out, unsigned flags) {
  SIM_CALL(kContext);
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  ++call.context().references;
  *out = handle_of(&call.context());
  return CUDA_SUCCESS;
}

SIM(cuCtxDetach)(CUcontext handle) {
  {
    SIM_CALL(kInit);
    Context* context = call.state().find<Context>(handle);
    if (context != nullptr && context->references > 1) {
      --context->references;
      return CUDA_SUCCESS;
    }
  }
  return sim_cuCtxDestroy_v2(handle);
}

SIM(cuCtxPushCurrent_v2)(CUcontext handle) {
  SIM_CALL(kInit);
  Context* context = simcuda::find_usable(call.state(), handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  simcuda::push(*context);
  return CUDA_SUCCESS;
}

SIM(cuCtxPopCurrent_v2)(CUcontext* out) {
  SIM_CALL(kInit);
  std::vector<CurrentContext>& stack = simcuda::thread_state().stack;
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = handle_of(stack.back().context);
  stack.pop_back();
  return CUDA_SUCCESS;
}

SIM(cuCtxSetCurrent)(CUcontext handle) {
  SIM_CALL(kInit);
  std::vector<CurrentContext>& stack = simcuda::thread_state().stack;
  Context* context = nullptr;
  if (handle != nullptr) {
    context = simcuda::find_usable(call.state(), handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) simcuda::push(*context);
  return CUDA_SUCCESS;
}

SIM(cuCtxGetCurrent)(CUcontext* out) {
  SIM_CALL(kInit);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CurrentContext>& stack = simcuda::thread_state().stack;
  *out = stack.empty() ? nullptr : handle_of(stack.back().context);
  return CUDA_SUCCESS;
}

SIM(cuCtxGetDevice)(CUdevice* device) {
  SIM_CALL(kContext);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = call.context().device;
  return CUDA_SUCCESS;
}

SIM(cuCtxGetDevice_v2)(CUdevice* device, CUcontext handle) {
  if (handle == nullptr) return sim_cuCtxGetDevice(device);
  SIM_CALL(kInit);
  Context* context = simcuda::find_usable(call.state(), handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

SIM(cuCtxGetFlags)(unsigned* flags) {
  SIM_CALL(kContext);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = call.context().flags;
  return CUDA_SUCCESS;
}

SIM(cuCtxSetFlags)(unsigned flags) {
  SIM_CALL(kContext);
  call.context().flags = flags;
  return CUDA_SUCCESS;
}

SIM(cuCtxGetId)(CUcontext handle, unsigned long long* id) {
  SIM_CALL(kInit);
  Context* context = handle == nullptr ? nullptr : simcuda::find_usable(call.state(), handle);
  if (handle == nullptr) {
    std::vector<CurrentContext>& stack = simcuda::thread_state().stack;
    if (!stack.empty() && simcuda::is_alive(call.state(), stack.back())) context = stack.back().context;
  }
  if (context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = context->serial;
  return CUDA_SUCCESS;
}

SIM(cuCtxSynchronize)(void) {
  SIM_CALL(kContext);
  simcuda::synchronize_pools(call.state(), call.context().device);
  return CUDA_SUCCESS;
}

SIM(cuCtxSynchronize_v2)(CUcontext handle) {
  if (handle == nullptr) return sim_cuCtxSynchronize();
  SIM_CALL(kInit);
  Context* context = simcuda::find_usable(call.state(), handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  simcuda::synchronize_pools(call.state(), context->device);
  return CUDA_SUCCESS;
}

SIM(cuCtxSetLimit)(CUlimit limit, std::size_t value) {
  SIM_CALL(kContext);
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (CUresult status = simcuda::take_for_limit(call.state(), call.context(), limit, value)) return status;
  call.context().limits[limit] = value;
  return CUDA_SUCCESS;
}

SIM(cuCtxGetLimit)(std::size_t* value, CUlimit limit) {
  SIM_CALL(kContext);
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = simcuda::limit_of(call.context(), limit);
  // The limit that was set, or the local memory that a kernel needed, if that is more.
  if (limit == CU_LIMIT_STACK_SIZE && call.context().local_bytes > *value) *value = call.context().local_bytes;
  return CUDA_SUCCESS;
}

SIM(cuCtxGetCacheConfig)(CUfunc_cache* config) {
  SIM_CALL(kContext);
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}

SIM(cuCtxSetCacheConfig)(CUfunc_cache) {
  SIM_CALL(kContext);
  return CUDA_SUCCESS;
}

SIM(cuCtxGetSharedMemConfig)(CUsharedconfig* config) {
  SIM_CALL(kContext);
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}

SIM(cuCtxSetSharedMemConfig)(CUsharedconfig) {
  SIM_CALL(kContext);
  return CUDA_SUCCESS;
}

SIM(cuCtxGetApiVersion)(CUcontext handle, unsigned* version) {
  SIM_CALL(kInit);
  if (handle != nullptr && simcuda::find_usable(call.state(), handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}

SIM(cuCtxGetStreamPriorityRange)(int* least, int* greatest) {
  SIM_CALL(kContext);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

SIM(cuCtxResetPersistingL2Cache)(void) {
  SIM_CALL(kContext);
  return CUDA_SUCCESS;
}

SIM(cuCtxEnablePeerAccess)(CUcontext handle, unsigned flags) {
  SIM_CALL(kContext);
  Context* peer = simcuda::find_usable(call.state(), handle);
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (peer->device == call.context().device) return CUDA_ERROR_INVALID_DEVICE;
  return call.context().peers.insert(peer->device).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

SIM(cuCtxDisablePeerAccess)(CUcontext handle) {
  SIM_CALL(kContext);
  Context* peer = simcuda::find_usable(call.state(), handle);
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return call.context().peers.erase(peer->device) == 1 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

SIM(cuDevicePrimaryCtxRetain)(CUcontext* out, CUdevice ordinal) {
  SIM_CALL(kInit);
  Device* device = call.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device->primary == nullptr) {
    device->primary = simcuda::make_context(call.state(), ordinal, device->primary_flags);
    device->primary->primary = true;
  } else if (!device->primary->active) {
    device->primary->active = true;
    device->primary->serial = call.state().next_serial++;
    device->primary->flags = device->primary_flags;
  }
  if (device->primary->own_bytes == 0) {
    if (CUresult status = simcuda::take_context(call.state(), *device->primary)) {
      device->primary->active = false;
      return status;
    }
  }
  ++device->primary_references;
  *out = handle_of(device->primary);
  return CUDA_SUCCESS;
}

SIM(cuDevicePrimaryCtxRelease_v2)(CUdevice ordinal) {
  SIM_CALL(kInit);
  Device* device = call.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary_references == 0) simcuda::deactivate_primary(call.state(), *device);
  return CUDA_SUCCESS;
}

SIM(cuDevicePrimaryCtxReset_v2)(CUdevice ordinal) {
  SIM_CALL(kInit);
  Device* device = call.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  simcuda::deactivate_primary(call.state(), *device);
  return CUDA_SUCCESS;
}

SIM(cuDevicePrimaryCtxSetFlags_v2)(CUdevice ordinal, unsigned flags) {
  SIM_CALL(kInit);
  Device* device = call.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  device->primary_flags = flags;
  if (device->primary != nullptr) device->primary->flags = flags;
  return CUDA_SUCCESS;
}

SIM(cuDevicePrimaryCtxGetState)(CUdevice ordinal, unsigned* flags, int* active) {
  SIM_CALL(kInit);
  Device* device = call.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = device->primary_flags;
  *active = device->primary != nullptr && device->primary->active;
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetDevResource)(CUdevice ordinal, CUdevResource* resource, CUdevResourceType type) {
  SIM_CALL(kInit);
  if (call.device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (resource == nullptr || type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = simcuda::multiprocessors(simcuda::kMultiprocessors);
  return CUDA_SUCCESS;
}

SIM(cuCtxGetDevResource)(CUcontext handle, CUdevResource* resource, CUdevResourceType type) {
  SIM_CALL(kInit);
  if (simcuda::find_usable(call.state(), handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (resource == nullptr || type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = simcuda::multiprocessors(simcuda::kMultiprocessors);
  return CUDA_SUCCESS;
}

SIM(cuDevSmResourceSplitByCount)
(CUdevResource* result, unsigned* groups, const CUdevResource* input, CUdevResource* remaining, unsigned,
 unsigned minimum) {
  SIM_CALL(kInit);
  if (groups == nullptr || input == nullptr || input->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
  unsigned each = ((minimum == 0 ? 1 : minimum) + 7) / 8 * 8;  // Hopper splits by 8
  unsigned possible = input->sm.smCount / each;
  if (possible == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  if (result == nullptr) {
    *groups = possible;
    return CUDA_SUCCESS;
  }
  if (*groups > possible) *groups = possible;
  for (unsigned i = 0; i < *groups; ++i) result[i] = simcuda::multiprocessors(each);
  if (remaining != nullptr) *remaining = simcuda::multiprocessors(input->sm.smCount - *groups * each);
  return CUDA_SUCCESS;
}

SIM(cuDevResourceGenerateDesc)(CUdevResourceDesc* out, CUdevResource* resources, unsigned count) {
  SIM_CALL(kInit);
  if (out == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  ResourceDescriptor* descriptor = call.state().add(new ResourceDescriptor);
  descriptor->resource = resources[0];
  for (unsigned i = 1; i < count; ++i) descriptor->resource.sm.smCount += resources[i].sm.smCount;
  *out = reinterpret_cast<CUdevResourceDesc>(descriptor);
  return CUDA_SUCCESS;
}

SIM(cuGreenCtxCreate)(CUgreenCtx* out, CUdevResourceDesc handle, CUdevice ordinal, unsigned flags) {
  SIM_CALL(kInit);
  if (call.device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  ResourceDescriptor* descriptor = call.state().find<ResourceDescriptor>(handle);
  if (descriptor == nullptr || out == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  GreenContext* green = call.state().add(new GreenContext);
  green->resource = descriptor->resource;
  green->id = call.state().next_id++;
  green->inner = simcuda::make_context(call.state(), ordinal, 0);
  green->inner->green = green;
  *out = reinterpret_cast<CUgreenCtx>(green);
  return CUDA_SUCCESS;
}

SIM(cuGreenCtxDestroy)(CUgreenCtx handle) {
  SIM_CALL(kInit);
  GreenContext* green = call.state().find<GreenContext>(handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  call.state().destroy(green);
  return CUDA_SUCCESS;
}

SIM(cuCtxFromGreenCtx)(CUcontext* out, CUgreenCtx handle) {
  SIM_CALL(kInit);
  GreenContext* green = call.state().find<GreenContext>(handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(green->inner);
  return CUDA_SUCCESS;
}

SIM(cuGreenCtxGetDevResource)(CUgreenCtx handle, CUdevResource* resource, CUdevResourceType type) {
  SIM_CALL(kInit);
  GreenContext* green = call.state().find<GreenContext>(handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (resource == nullptr || type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = green->resource;
  return CUDA_SUCCESS;
}

SIM(cuGreenCtxGetId)(CUgreenCtx handle, unsigned long long* id) {
  SIM_CALL(kInit);
  GreenContext* green = call.state().find<GreenContext>(handle);
  if (green == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = green->id;
  return CUDA_SUCCESS;
}
