// The nodes of graphs: one function to add each type, two to read and change its parameters.
#include <algorithm>

#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/graphs.h"
#include "tests/simcuda/driver/modules.h"
#include "tests/simcuda/driver/streams.h"

namespace simcuda {
namespace {

// A node of a given type whose work `fill` describes.
template <typename Fill>
CUresult add(CUgraphNode* out, CUgraph handle, CUgraphNodeType type, const CUgraphNode* dependencies, std::size_t count,
             Fill fill) {
  SIM_CALL(kInit);
  Graph* graph = call.state().find<Graph>(handle);
  if (graph == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeWork work;
  work.type = type;
  if (CUresult status = fill(call, work)) return status;
  CUresult status = CUDA_SUCCESS;
  GraphNode* node = add_node(call.state(), *graph, type, dependencies, count, &status);
  if (node == nullptr) {
    if (work.child != nullptr) call.state().destroy(work.child);
    return status;
  }
  node->work = work;
  *out = reinterpret_cast<CUgraphNode>(node);
  return CUDA_SUCCESS;
}

// Looks up a node of a type and passes its work to `use`.
template <typename Use>
CUresult with_node(CUgraphNode handle, CUgraphNodeType type, Use use) {
  SIM_CALL(kInit);
  GraphNode* node = call.state().find<GraphNode>(handle);
  if (node == nullptr || node->work.type != type) return CUDA_ERROR_INVALID_VALUE;
  return use(node->work);
}

CUresult add_kernel(CUgraphNode* out, CUgraph graph_handle, const CUgraphNode* dependencies, std::size_t count,
                    const CUDA_KERNEL_NODE_PARAMS& parameters) {
  return add(out, graph_handle, CU_GRAPH_NODE_TYPE_KERNEL, dependencies, count, [&](Call& call, NodeWork& work) {
    if (!is_launchable(call.state(), parameters.func) && parameters.kern == nullptr) return CUDA_ERROR_INVALID_VALUE;
    work.kernel = parameters;
    return CUDA_SUCCESS;
  });
}

CUDA_KERNEL_NODE_PARAMS from_v1(const CUDA_KERNEL_NODE_PARAMS_v1& old) {
  CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.func = old.func;
  parameters.gridDimX = old.gridDimX;
  parameters.gridDimY = old.gridDimY;
  parameters.gridDimZ = old.gridDimZ;
  parameters.blockDimX = old.blockDimX;
  parameters.blockDimY = old.blockDimY;
  parameters.blockDimZ = old.blockDimZ;
  parameters.sharedMemBytes = old.sharedMemBytes;
  parameters.kernelParams = old.kernelParams;
  parameters.extra = old.extra;
  return parameters;
}

CUresult fill_allocation(Call& call, NodeWork& work, CUgraph graph_handle, const CUgraphNode* dependencies,
                         std::size_t count, const CUmemPoolProps& pool, std::size_t bytes) {
  if (bytes == 0 || pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (call.device(pool.location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Graph* graph = call.state().find<Graph>(graph_handle);
  if (graph->parent != nullptr) return CUDA_ERROR_NOT_SUPPORTED;  // as the driver does: it was moved into another one
  std::vector<GraphNode*> before;
  for (std::size_t i = 0; i < count; ++i) {
    if (GraphNode* node = call.state().find<GraphNode>(dependencies[i])) before.push_back(node);
  }
  work.memory = reserve_graph_memory(call.state(), *graph, pool.location.id, bytes, before);
  if (work.memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  work.allocation.poolProps = pool;
  work.allocation.bytesize = bytes;
  work.allocation.dptr = work.memory->address;
  return CUDA_SUCCESS;
}

CUresult add_free(CUgraphNode* out, CUgraph graph_handle, const CUgraphNode* dependencies, std::size_t count,
                  CUdeviceptr address) {
  return add(out, graph_handle, CU_GRAPH_NODE_TYPE_MEM_FREE, dependencies, count, [&](Call& call, NodeWork& work) {
    work.freed_memory = memory_to_free(call.state(), *call.state().find<Graph>(graph_handle), address);
    if (work.freed_memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    work.freed = address;
    return CUDA_SUCCESS;
  });
}

CUresult add_child(CUgraphNode* out, CUgraph graph_handle, const CUgraphNode* dependencies, std::size_t count,
                   CUgraph child_handle, CUgraphChildGraphNodeOwnership ownership) {
  return add(out, graph_handle, CU_GRAPH_NODE_TYPE_GRAPH, dependencies, count, [&](Call& call, NodeWork& work) {
    Graph* child = call.state().find<Graph>(child_handle);
    if (child == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
      if (child->owned_by_node) return CUDA_ERROR_INVALID_VALUE;
      child->parent = call.state().find<Graph>(graph_handle);
      work.child = child;
    } else {
      if (has_memory_nodes(*child)) return CUDA_ERROR_NOT_SUPPORTED;
      work.child = clone_graph(call.state(), *child);
    }
    work.child->owned_by_node = true;
    return CUDA_SUCCESS;
  });
}

CUresult add_event(CUgraphNode* out, CUgraph graph, CUgraphNodeType type, const CUgraphNode* dependencies,
                   std::size_t count, CUevent event) {
  return add(out, graph, type, dependencies, count, [&](Call& call, NodeWork& work) {
    if (call.state().find<Event>(event) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    work.event = event;
    return CUDA_SUCCESS;
  });
}

// cuGraphAddNode: every type that this driver knows.
CUresult add_generic(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                     CUgraphNodeParams* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS kernel{};
      kernel.func = p->kernel.func;
      kernel.kern = p->kernel.kern;
      kernel.gridDimX = p->kernel.gridDimX;
      kernel.gridDimY = p->kernel.gridDimY;
      kernel.gridDimZ = p->kernel.gridDimZ;
      kernel.blockDimX = p->kernel.blockDimX;
      kernel.blockDimY = p->kernel.blockDimY;
      kernel.blockDimZ = p->kernel.blockDimZ;
      return add_kernel(out, graph, dependencies, count, kernel);
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return add(out, graph, p->type, dependencies, count, [&](Call& call, NodeWork& work) {
        CUresult status =
            fill_allocation(call, work, graph, dependencies, count, p->alloc.poolProps, p->alloc.bytesize);
        if (status == CUDA_SUCCESS) p->alloc.dptr = work.memory->address;
        return status;
      });
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return add_free(out, graph, dependencies, count, p->free.dptr);
    case CU_GRAPH_NODE_TYPE_HOST:
      return add(out, graph, p->type, dependencies, count, [&](Call&, NodeWork& work) {
        work.host = {p->host.fn, p->host.userData};
        return CUDA_SUCCESS;
      });
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return add(out, graph, p->type, dependencies, count, [&](Call&, NodeWork& work) {
        work.copy = p->memcpy.copyParams;
        return CUDA_SUCCESS;
      });
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return add(out, graph, p->type, dependencies, count, [&](Call&, NodeWork& work) {
        work.set = {p->memset.dst,         p->memset.pitch, p->memset.value,
                    p->memset.elementSize, p->memset.width, p->memset.height};
        return CUDA_SUCCESS;
      });
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return add_child(out, graph, dependencies, count, p->graph.graph, p->graph.ownership);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return add_event(out, graph, p->type, dependencies, count, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return add_event(out, graph, p->type, dependencies, count, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return add(out, graph, p->type, dependencies, count, [](Call&, NodeWork&) { return CUDA_SUCCESS; });
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace
}  // namespace simcuda

using simcuda::Call;
using simcuda::NodeWork;

SIM(cuGraphAddNode)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count, CUgraphNodeParams* parameters) {
  return simcuda::add_generic(out, graph, dependencies, count, parameters);
}

SIM(cuGraphAddNode_v2)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData*, std::size_t count,
 CUgraphNodeParams* parameters) {
  return simcuda::add_generic(out, graph, dependencies, count, parameters);
}

SIM(cuGraphAddKernelNode_v2)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
 const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::add_kernel(out, graph, dependencies, count, *parameters);
}

SIM(cuGraphAddKernelNode)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
 const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::add_kernel(out, graph, dependencies, count, simcuda::from_v1(*parameters));
}

SIM(cuGraphKernelNodeGetParams_v2)(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out) {
  return simcuda::with_node(node, CU_GRAPH_NODE_TYPE_KERNEL,
                            [&](NodeWork& work) { return *out = work.kernel, CUDA_SUCCESS; });
}

SIM(cuGraphKernelNodeSetParams_v2)(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* in) {
  return simcuda::with_node(node, CU_GRAPH_NODE_TYPE_KERNEL,
                            [&](NodeWork& work) { return work.kernel = *in, CUDA_SUCCESS; });
}

SIM(cuGraphAddMemcpyNode)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count, const CUDA_MEMCPY3D* parameters,
 CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::add(out, graph, CU_GRAPH_NODE_TYPE_MEMCPY, dependencies, count,
                      [&](Call&, NodeWork& work) { return work.copy = *parameters, CUDA_SUCCESS; });
}

SIM(cuGraphMemcpyNodeGetParams)(CUgraphNode node, CUDA_MEMCPY3D* out) {
  return simcuda::with_node(node, CU_GRAPH_NODE_TYPE_MEMCPY,
                            [&](NodeWork& work) { return *out = work.copy, CUDA_SUCCESS; });
}

SIM(cuGraphMemcpyNodeSetParams)(CUgraphNode node, const CUDA_MEMCPY3D* in) {
  return simcuda::with_node(node, CU_GRAPH_NODE_TYPE_MEMCPY,
                            [&](NodeWork& work) { return work.copy = *in, CUDA_SUCCESS; });
}

SIM(cuGraphAddMemsetNode)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
 const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::add(out, graph, CU_GRAPH_NODE_TYPE_MEMSET, dependencies, count,
                      [&](Call&, NodeWork& work) { return work.set = *parameters, CUDA_SUCCESS; });
}

SIM(cuGraphMemsetNodeGetParams)(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out) {
  return simcuda::with_node(node, CU_GRAPH_NODE_TYPE_MEMSET,
                            [&](NodeWork& work) { return *out = work.set, CUDA_SUCCESS; });
}

SIM(cuGraphMemsetNodeSetParams)(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* in) {
  return simcuda::with_node(node, CU_GRAPH_NODE_TYPE_MEMSET,
                            [&](NodeWork& work) { return work.set = *in, CUDA_SUCCESS; });
}

SIM(cuGraphAddHostNode)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
 const CUDA_HOST_NODE_PARAMS* parameters) {
  if (parameters == nullptr || parameters->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::add(out, graph, CU_GRAPH_NODE_TYPE_HOST, dependencies, count,
                      [&](Call&, NodeWork& work) { return work.host = *parameters, CUDA_SUCCESS; });
}

SIM(cuGraphHostNodeGetParams)(CUgraphNode node, CUDA_HOST_NODE_PARAMS* out) {
  return simcuda::with_node(node, CU_GRAPH_NODE_TYPE_HOST,
                            [&](NodeWork& work) { return *out = work.host, CUDA_SUCCESS; });
}

SIM(cuGraphHostNodeSetParams)(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* in) {
  return simcuda::with_node(node, CU_GRAPH_NODE_TYPE_HOST,
                            [&](NodeWork& work) { return work.host = *in, CUDA_SUCCESS; });
}

SIM(cuGraphAddChildGraphNode)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count, CUgraph child) {
  return simcuda::add_child(out, graph, dependencies, count, child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE);
}

SIM(cuGraphChildGraphNodeGetGraph)(CUgraphNode node, CUgraph* out) {
  return simcuda::with_node(node, CU_GRAPH_NODE_TYPE_GRAPH,
                            [&](NodeWork& work) { return *out = reinterpret_cast<CUgraph>(work.child), CUDA_SUCCESS; });
}

SIM(cuGraphAddEmptyNode)(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count) {
  return simcuda::add(out, graph, CU_GRAPH_NODE_TYPE_EMPTY, dependencies, count,
                      [](Call&, NodeWork&) { return CUDA_SUCCESS; });
}

SIM(cuGraphAddEventRecordNode)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count, CUevent event) {
  return simcuda::add_event(out, graph, CU_GRAPH_NODE_TYPE_EVENT_RECORD, dependencies, count, event);
}

SIM(cuGraphAddEventWaitNode)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count, CUevent event) {
  return simcuda::add_event(out, graph, CU_GRAPH_NODE_TYPE_WAIT_EVENT, dependencies, count, event);
}

SIM(cuGraphAddMemAllocNode)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
 CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::add(out, graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, dependencies, count, [&](Call& call, NodeWork& work) {
    CUresult status =
        simcuda::fill_allocation(call, work, graph, dependencies, count, parameters->poolProps, parameters->bytesize);
    if (status == CUDA_SUCCESS) parameters->dptr = work.memory->address;
    return status;
  });
}

SIM(cuGraphMemAllocNodeGetParams)(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* out) {
  return simcuda::with_node(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                            [&](NodeWork& work) { return *out = work.allocation, CUDA_SUCCESS; });
}

SIM(cuGraphAddMemFreeNode)
(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count, CUdeviceptr address) {
  return simcuda::add_free(out, graph, dependencies, count, address);
}

SIM(cuGraphMemFreeNodeGetParams)(CUgraphNode node, CUdeviceptr* out) {
  return simcuda::with_node(node, CU_GRAPH_NODE_TYPE_MEM_FREE,
                            [&](NodeWork& work) { return *out = work.freed, CUDA_SUCCESS; });
}
