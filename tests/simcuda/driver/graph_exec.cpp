// Executable graphs. A launch does the graph's work at once: memory nodes become physical, copies copy, host functions
// run.
#include <algorithm>

#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/capture.h"
#include "tests/simcuda/driver/copies.h"
#include "tests/simcuda/driver/graphs.h"
#include "tests/simcuda/driver/modules.h"
#include "tests/simcuda/driver/own_memory.h"
#include "tests/simcuda/driver/streams.h"

namespace simcuda {
namespace {

// Dependencies first; child graphs are spliced in. Returns false when there is a cycle.
bool order_steps(Graph& graph, std::vector<GraphExec::Step>& steps) {
  std::vector<GraphNode*> pending = graph.nodes;
  std::vector<GraphNode*> done;
  while (!pending.empty()) {
    std::size_t before = pending.size();
    for (auto entry = pending.begin(); entry != pending.end();) {
      GraphNode* node = *entry;
      bool ready = std::all_of(node->dependencies.begin(), node->dependencies.end(), [&](GraphNode* dependency) {
        return std::find(done.begin(), done.end(), dependency) != done.end();
      });
      if (!ready) {
        ++entry;
        continue;
      }
      if (node->work.child != nullptr && !order_steps(*node->work.child, steps)) return false;
      GraphExec::Step step;
      step.work = node->work;
      step.work.child = nullptr;
      step.node = node;
      steps.push_back(step);
      done.push_back(node);
      entry = pending.erase(entry);
    }
    if (pending.size() == before) return false;
  }
  return true;
}

const void* kernel_of(const NodeWork& work) {
  return work.kernel.func != nullptr ? static_cast<const void*>(work.kernel.func) : work.kernel.kern;
}

// An instantiation takes the memory of the executable and the local memory of its kernels. The first launch takes no
// more local memory (driver 580 on an H200).
CUresult take_for_exec(DriverState& state, Context& context, const GraphExec& exec) {
  if (CUresult status = take_graph(state, *exec.device, exec.taken)) return status;
  for (const GraphExec::Step& step : exec.steps) {
    if (step.work.type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    if (CUresult status = take_for_kernel(state, context, kernel_name(state, kernel_of(step.work)))) {
      return_graph(*exec.device, exec.taken);
      return status;
    }
  }
  return CUDA_SUCCESS;
}

// The device memory of an executable graph.
std::size_t exec_bytes(const DriverState& state, const Graph& graph) {
  std::size_t bytes = 0;
  for (const GraphNode* node : graph.nodes) {
    if (node->work.child != nullptr) bytes += exec_bytes(state, *node->work.child);
    bytes += node->dependencies.empty() ? state.own_memory.wide_node : state.own_memory.chained_node;
  }
  return bytes;
}

CUresult instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  SIM_CALL(kInit);
  Graph* graph = call.state().find<Graph>(handle);
  if (graph == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool memory = has_memory_nodes(*graph);
  if (memory && is_instantiated(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  if (graph->parent != nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphExec* exec = new GraphExec;
  exec->flags = flags;
  if (!order_steps(*graph, exec->steps)) {
    delete exec;
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::vector<CurrentContext>& contexts = thread_state().stack;
  if (call.state().own_memory.on && !contexts.empty() && is_alive(call.state(), contexts.back())) {
    exec->device = call.state().devices[contexts.back().context->device].get();
    exec->taken = exec_bytes(call.state(), *graph);
    if (CUresult status = take_for_exec(call.state(), *contexts.back().context, *exec)) {
      delete exec;
      return status;
    }
  }
  exec->instance = graph->instances;
  exec->user_objects = graph->user_objects;
  for (auto& [object, count] : exec->user_objects) object->references += count;
  call.state().add(exec);
  *out = reinterpret_cast<CUgraphExec>(exec);
  return CUDA_SUCCESS;
}

// Physical memory for `used` bytes of graphs; what there is more than that stays.
CUresult reserve(DriverState& state, Device& device, std::size_t used) {
  if (used <= device.graph_reserved) return CUDA_SUCCESS;
  const std::size_t grow = used - device.graph_reserved;
  if (grow > device.available() && !make_room(state, device, grow)) return CUDA_ERROR_OUT_OF_MEMORY;
  device.used += grow;
  device.graph_reserved = used;
  device.graph_reserved_high = std::max(device.graph_reserved_high, used);
  return CUDA_SUCCESS;
}

// Makes the addresses of an allocation node real memory.
CUresult materialize(DriverState& state, const NodeWork& work, Context* context) {
  Device& device = *state.devices[work.memory->device];
  std::uint64_t address = work.memory->address;
  if (device.memory.find(address) != device.memory.end())
    return CUDA_ERROR_INVALID_VALUE;  // not freed since the last launch
  std::size_t used = device.graph_used + work.memory->bytes;
  if (CUresult status = reserve(state, device, used)) return status;
  device.graph_used = used;
  device.graph_used_high = std::max(device.graph_used_high, used);
  Allocation& allocation = device.memory[address];
  allocation.address = allocation.range = address;
  allocation.bytes = work.memory->bytes;
  allocation.id = state.next_id++;
  allocation.kind = MemoryKind::kGraph;
  allocation.device = device.ordinal;
  allocation.context = context;
  allocation.graph_memory = work.memory;
  return CUDA_SUCCESS;
}

// Whether memory that the graph allocates is there from an earlier launch, or memory that it frees is not.
bool may_launch(DriverState& state, const GraphExec& exec) {
  return std::all_of(exec.steps.begin(), exec.steps.end(), [&](const GraphExec::Step& step) {
    const GraphMemory* freed = step.work.freed_memory.get();
    if (step.work.memory != nullptr)
      return find_allocation(state, step.work.memory->device, step.work.memory->address) == nullptr;
    return freed == nullptr || freed->freed_inside || find_allocation(state, freed->device, freed->address) != nullptr;
  });
}

CUresult run_step(DriverState& state, const NodeWork& work, Stream& stream) {
  int device = stream.context->device;
  switch (work.type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return materialize(state, work, stream.context);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      if (Allocation* allocation = find_allocation(state, device, work.freed)) release_allocation(state, *allocation);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_3d(state, device, work.copy);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return set_2d(state, device, work.set.dst, work.set.pitch, work.set.value, work.set.elementSize, work.set.width,
                    work.set.height);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      if (Event* event = state.find<Event>(work.event)) {
        event->recorded = true;
        event->time_ns = now_ns();
      }
      return CUDA_SUCCESS;
    default:
      return CUDA_SUCCESS;
  }
}

GraphExec::Step* find_step(GraphExec& exec, CUgraphNode node) {
  for (GraphExec::Step& step : exec.steps) {
    if (step.node == reinterpret_cast<GraphNode*>(node)) return &step;
  }
  return nullptr;
}

template <typename Use>
CUresult with_step(CUgraphExec handle, CUgraphNode node, Use use) {
  SIM_CALL(kInit);
  GraphExec* exec = call.state().find<GraphExec>(handle);
  GraphExec::Step* step = exec == nullptr ? nullptr : find_step(*exec, node);
  if (step == nullptr) return CUDA_ERROR_INVALID_VALUE;
  use(*step);
  return CUDA_SUCCESS;
}

// Takes over the parameters of a graph of the same shape.
CUresult update(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResult* result) {
  SIM_CALL(kInit);
  GraphExec* exec = call.state().find<GraphExec>(handle);
  Graph* graph = call.state().find<Graph>(graph_handle);
  if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphExec::Step> steps;
  bool same = order_steps(*graph, steps) && steps.size() == exec->steps.size();
  for (std::size_t i = 0; same && i < steps.size(); ++i) same = steps[i].work.type == exec->steps[i].work.type;
  *result = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  exec->instance = graph->instances;
  exec->steps = std::move(steps);
  return CUDA_SUCCESS;
}

}  // namespace

void GraphExec::release(DriverState& state) {
  if (device != nullptr && device->exec_used >= taken) return_graph(*device, taken);
  for (auto& [object, count] : user_objects) release_user_object(state, object, count);
}

}  // namespace simcuda

using simcuda::Device;
using simcuda::GraphExec;

SIM(cuGraphInstantiateWithFlags)(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return simcuda::instantiate(out, graph, flags);
}

SIM(cuGraphInstantiate_v2)(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  return simcuda::instantiate(out, graph, 0);
}

SIM(cuGraphInstantiateWithParams)(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = simcuda::instantiate(out, graph, parameters->flags);
  parameters->result_out = status == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  parameters->hErrNode_out = nullptr;
  return status;
}

SIM(cuGraphExecDestroy)(CUgraphExec handle) {
  SIM_CALL(kInit);
  GraphExec* exec = call.state().find<GraphExec>(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  call.state().destroy(exec);
  return CUDA_SUCCESS;
}

SIM(cuGraphExecGetFlags)(CUgraphExec handle, cuuint64_t* flags) {
  SIM_CALL(kInit);
  GraphExec* exec = call.state().find<GraphExec>(handle);
  if (exec == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

// The driver takes the memory of the graph's allocation nodes now, and not when the graph is launched.
SIM(cuGraphUpload)(CUgraphExec handle, CUstream stream) {
  SIM_CALL(kContext);
  const GraphExec* exec = call.state().find<GraphExec>(handle);
  if (exec == nullptr || simcuda::find_stream(call.state(), call.context(), stream) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  std::map<int, std::size_t> bytes;  // by device
  for (const GraphExec::Step& step : exec->steps) {
    if (step.work.memory != nullptr) bytes[step.work.memory->device] += step.work.memory->bytes;
  }
  for (const auto& [ordinal, needed] : bytes) {
    Device& device = *call.state().devices[ordinal];
    if (CUresult status = simcuda::reserve(call.state(), device, device.graph_used + needed)) return status;
  }
  return CUDA_SUCCESS;
}

SIM(cuGraphLaunch)(CUgraphExec handle, CUstream stream_handle) {
  std::vector<CUDA_HOST_NODE_PARAMS> host_functions;
  {
    SIM_CALL(kContext);
    GraphExec* exec = call.state().find<GraphExec>(handle);
    simcuda::Stream* stream = simcuda::find_stream(call.state(), call.context(), stream_handle);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if ((exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0) {
      for (GraphExec::Step& step : exec->steps) {
        if (step.work.memory == nullptr) continue;
        simcuda::Allocation* left =
            simcuda::find_allocation(call.state(), step.work.memory->device, step.work.memory->address);
        if (left != nullptr) simcuda::release_allocation(call.state(), *left);
      }
    }
    if (!simcuda::may_launch(call.state(), *exec)) return CUDA_ERROR_INVALID_VALUE;
    for (GraphExec::Step& step : exec->steps) {
      if (!step.enabled) continue;
      if (step.work.type == CU_GRAPH_NODE_TYPE_KERNEL) {
        if (CUresult status = simcuda::load_for_launch(call, simcuda::kernel_of(step.work))) return status;
      }
      if (CUresult status = simcuda::run_step(call.state(), step.work, *stream)) return status;
      if (step.work.type == CU_GRAPH_NODE_TYPE_HOST) host_functions.push_back(step.work.host);
    }
  }
  for (CUDA_HOST_NODE_PARAMS& host : host_functions) host.fn(host.userData);  // without the lock
  return CUDA_SUCCESS;
}

SIM(cuGraphExecUpdate_v2)(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *info = {};
  return simcuda::update(exec, graph, &info->result);
}

SIM(cuGraphExecUpdate)(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node, CUgraphExecUpdateResult* result) {
  if (result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (error_node != nullptr) *error_node = nullptr;
  return simcuda::update(exec, graph, result);
}

SIM(cuGraphNodeSetEnabled)(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  return simcuda::with_step(exec, node, [&](GraphExec::Step& step) { step.enabled = enabled != 0; });
}

SIM(cuGraphNodeGetEnabled)(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
  if (enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::with_step(exec, node, [&](GraphExec::Step& step) { *enabled = step.enabled; });
}

SIM(cuGraphExecKernelNodeSetParams_v2)(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::with_step(exec, node, [&](GraphExec::Step& step) { step.work.kernel = *parameters; });
}

SIM(cuGraphExecMemcpyNodeSetParams)(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::with_step(exec, node, [&](GraphExec::Step& step) { step.work.copy = *parameters; });
}

SIM(cuGraphExecMemsetNodeSetParams)
(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::with_step(exec, node, [&](GraphExec::Step& step) { step.work.set = *parameters; });
}

SIM(cuGraphExecHostNodeSetParams)(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::with_step(exec, node, [&](GraphExec::Step& step) { step.work.host = *parameters; });
}

SIM(cuDeviceGraphMemTrim)(CUdevice ordinal) {
  SIM_CALL(kInit);
  Device* device = call.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  device->used -= device->graph_reserved - device->graph_used;
  device->graph_reserved = device->graph_used;
  return CUDA_SUCCESS;
}

SIM(cuDeviceGetGraphMemAttribute)(CUdevice ordinal, CUgraphMem_attribute attribute, void* value) {
  SIM_CALL(kInit);
  Device* device = call.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* number = static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *number = device->graph_used;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *number = device->graph_used_high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *number = device->graph_reserved;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *number = device->graph_reserved_high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

SIM(cuDeviceSetGraphMemAttribute)(CUdevice ordinal, CUgraphMem_attribute attribute, void* value) {
  SIM_CALL(kInit);
  Device* device = call.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr || *static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) {
    device->graph_used_high = device->graph_used;
  } else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) {
    device->graph_reserved_high = device->graph_reserved;
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
