// Graphs. The runtime's handles are the driver's; so are most parameter structs.
#include "tests/simcuda/runtime/runtime.h"

using simcudart::address_of;
using simcudart::as;
using simcudart::done;
using simcudart::failed;
using simcudart::legacy;

namespace {

CUcontext current_context() {
  CUcontext context = nullptr;
  legacy.cuCtxGetCurrent(&context);
  return context;
}

bool kernel_node(const cudaKernelNodeParams& in, CUDA_KERNEL_NODE_PARAMS* out) {
  *out = {};
  out->func = as<CUfunction>(simcudart::find_kernel(in.func));
  out->gridDimX = in.gridDim.x;
  out->gridDimY = in.gridDim.y;
  out->gridDimZ = in.gridDim.z;
  out->blockDimX = in.blockDim.x;
  out->blockDimY = in.blockDim.y;
  out->blockDimZ = in.blockDim.z;
  out->sharedMemBytes = in.sharedMemBytes;
  out->kernelParams = in.kernelParams;
  out->extra = in.extra;
  return out->func != nullptr;
}

CUDA_MEMSET_NODE_PARAMS memset_node(const cudaMemsetParams& in) {
  return {address_of(in.dst), in.pitch, in.value, in.elementSize, in.width, in.height};
}

CUDA_MEMCPY3D copy_1d(void* to, const void* from, std::size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = address_of(from);
  copy.dstDevice = address_of(to);
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

}  // namespace

RUNTIME_API(cudaGraphCreate)(cudaGraph_t* out, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphCreate(out, flags));
}

RUNTIME_API(cudaGraphDestroy)(cudaGraph_t graph) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphDestroy(graph));
}

RUNTIME_API(cudaGraphClone)(cudaGraph_t* out, cudaGraph_t graph) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphClone(out, graph));
}

RUNTIME_API(cudaGraphAddNode)
(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
 std::size_t count, cudaGraphNodeParams* parameters) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphAddNode(out, graph, dependencies, as<const CUgraphEdgeData*>(edges), count,
                                    as<CUgraphNodeParams*>(parameters)));
}

RUNTIME_API(cudaGraphAddEmptyNode)
(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, std::size_t count) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphAddEmptyNode(out, graph, dependencies, count));
}

RUNTIME_API(cudaGraphAddKernelNode)
(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, std::size_t count,
 const cudaKernelNodeParams* parameters) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_KERNEL_NODE_PARAMS node;
  if (parameters == nullptr || !kernel_node(*parameters, &node)) return failed(cudaErrorInvalidDeviceFunction);
  return done(legacy.cuGraphAddKernelNode(out, graph, dependencies, count, &node));
}

RUNTIME_API(cudaGraphAddHostNode)
(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, std::size_t count,
 const cudaHostNodeParams* parameters) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphAddHostNode(out, graph, dependencies, count, as<const CUDA_HOST_NODE_PARAMS*>(parameters)));
}

RUNTIME_API(cudaGraphAddMemsetNode)
(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, std::size_t count,
 const cudaMemsetParams* parameters) {
  RUNTIME_NEEDS_CONTEXT();
  if (parameters == nullptr) return failed(cudaErrorInvalidValue);
  CUDA_MEMSET_NODE_PARAMS node = memset_node(*parameters);
  return done(legacy.cuGraphAddMemsetNode(out, graph, dependencies, count, &node, current_context()));
}

RUNTIME_API(cudaGraphAddMemcpyNode1D)
(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, std::size_t count, void* to,
 const void* from, std::size_t bytes, cudaMemcpyKind) {
  RUNTIME_NEEDS_CONTEXT();
  CUDA_MEMCPY3D node = copy_1d(to, from, bytes);
  return done(legacy.cuGraphAddMemcpyNode(out, graph, dependencies, count, &node, current_context()));
}

RUNTIME_API(cudaGraphAddChildGraphNode)
(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, std::size_t count, cudaGraph_t child) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphAddChildGraphNode(out, graph, dependencies, count, child));
}

RUNTIME_API(cudaGraphAddEventRecordNode)
(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, std::size_t count, cudaEvent_t event) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphAddEventRecordNode(out, graph, dependencies, count, event));
}

RUNTIME_API(cudaGraphAddEventWaitNode)
(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, std::size_t count, cudaEvent_t event) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphAddEventWaitNode(out, graph, dependencies, count, event));
}

RUNTIME_API(cudaGraphAddMemAllocNode)
(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, std::size_t count,
 cudaMemAllocNodeParams* parameters) {
  RUNTIME_NEEDS_CONTEXT();
  return done(
      legacy.cuGraphAddMemAllocNode(out, graph, dependencies, count, as<CUDA_MEM_ALLOC_NODE_PARAMS*>(parameters)));
}

RUNTIME_API(cudaGraphMemAllocNodeGetParams)(cudaGraphNode_t node, cudaMemAllocNodeParams* out) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphMemAllocNodeGetParams(node, as<CUDA_MEM_ALLOC_NODE_PARAMS*>(out)));
}

RUNTIME_API(cudaGraphAddMemFreeNode)
(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, std::size_t count, void* pointer) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphAddMemFreeNode(out, graph, dependencies, count, address_of(pointer)));
}

RUNTIME_API(cudaGraphMemFreeNodeGetParams)(cudaGraphNode_t node, void* out) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(out)));
}

RUNTIME_API(cudaGraphDestroyNode)(cudaGraphNode_t node) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphDestroyNode(node));
}

RUNTIME_API(cudaGraphNodeGetType)(cudaGraphNode_t node, cudaGraphNodeType* type) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphNodeGetType(node, as<CUgraphNodeType*>(type)));
}

RUNTIME_API(cudaGraphGetNodes)(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphGetNodes(graph, nodes, count));
}

RUNTIME_API(cudaGraphGetRootNodes)(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphGetRootNodes(graph, nodes, count));
}

RUNTIME_API(cudaGraphGetEdges)
(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* edges, std::size_t* count) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphGetEdges(graph, from, to, as<CUgraphEdgeData*>(edges), count));
}

RUNTIME_API(cudaGraphAddDependencies)
(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
 std::size_t count) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphAddDependencies(graph, from, to, as<const CUgraphEdgeData*>(edges), count));
}

RUNTIME_API(cudaGraphInstantiate)(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphInstantiateWithFlags(out, graph, flags));
}

RUNTIME_API(cudaGraphInstantiateWithFlags)(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphInstantiateWithFlags(out, graph, flags));
}

RUNTIME_STREAM_API(cudaGraphInstantiateWithParams, cudaGraphInstantiateWithParams_ptsz,
                   (cudaGraphExec_t * out, cudaGraph_t graph, cudaGraphInstantiateParams* parameters),
                   (out, graph, parameters)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuGraphInstantiateWithParams(out, graph, as<CUDA_GRAPH_INSTANTIATE_PARAMS*>(parameters)));
}

RUNTIME_API(cudaGraphExecUpdate)(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphExecUpdate(exec, graph, as<CUgraphExecUpdateResultInfo*>(info)));
}

RUNTIME_API(cudaGraphExecDestroy)(cudaGraphExec_t exec) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphExecDestroy(exec));
}

RUNTIME_API(cudaGraphExecGetFlags)(cudaGraphExec_t exec, unsigned long long* flags) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphExecGetFlags(exec, as<cuuint64_t*>(flags)));
}

RUNTIME_STREAM_API(cudaGraphUpload, cudaGraphUpload_ptsz, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuGraphUpload(exec, stream));
}

RUNTIME_STREAM_API(cudaGraphLaunch, cudaGraphLaunch_ptsz, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuGraphLaunch(exec, stream));
}

RUNTIME_API(cudaDeviceGraphMemTrim)(int device) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuDeviceGraphMemTrim(device));
}

RUNTIME_API(cudaDeviceGetGraphMemAttribute)(int device, cudaGraphMemAttributeType attribute, void* value) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value));
}

RUNTIME_API(cudaDeviceSetGraphMemAttribute)(int device, cudaGraphMemAttributeType attribute, void* value) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value));
}

RUNTIME_API(cudaUserObjectCreate)
(cudaUserObject_t* out, void* pointer, cudaHostFn_t destroy, unsigned references, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuUserObjectCreate(out, pointer, destroy, references, flags));
}

RUNTIME_API(cudaUserObjectRetain)(cudaUserObject_t object, unsigned count) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuUserObjectRetain(object, count));
}

RUNTIME_API(cudaUserObjectRelease)(cudaUserObject_t object, unsigned count) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuUserObjectRelease(object, count));
}

RUNTIME_API(cudaGraphRetainUserObject)(cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphRetainUserObject(graph, object, count, flags));
}

RUNTIME_API(cudaGraphReleaseUserObject)(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuGraphReleaseUserObject(graph, object, count));
}
