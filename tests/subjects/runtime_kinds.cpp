// runtime_kinds leak|free: makes one resource through each call of the runtime API that makes one, in a function of its
// own named make_<call>, and leaves it behind or releases it. Prints "CALL BYTES" for each, or "CALL unsupported CODE".
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "tests/subjects/check.h"

namespace {

bool leak = false;

// Thrown for something that this driver or device does not support: the row is skipped, not failed.
struct Unsupported {
  int code;
};

void must(cudaError_t code) {
  if (code != cudaSuccess) throw Unsupported{code};
}

void free_unless_leaking(void* pointer) {
  if (!leak) must(cudaFree(pointer));
}

SUBJECT_FUNCTION size_t make_cudaMalloc() {
  void* pointer = nullptr;
  must(cudaMalloc(&pointer, 11001));
  free_unless_leaking(pointer);
  return 11001;
}

SUBJECT_FUNCTION size_t make_cudaMallocManaged() {
  void* pointer = nullptr;
  must(cudaMallocManaged(&pointer, 11003, cudaMemAttachGlobal));
  free_unless_leaking(pointer);
  return 11003;
}

SUBJECT_FUNCTION size_t make_cudaMallocPitch() {
  void* pointer = nullptr;
  size_t pitch = 0;
  must(cudaMallocPitch(&pointer, &pitch, 1001, 13));
  free_unless_leaking(pointer);
  return pitch * 13;
}

SUBJECT_FUNCTION size_t make_cudaMalloc3D() {
  cudaPitchedPtr pointer = {};
  must(cudaMalloc3D(&pointer, {1003, 7, 5}));
  free_unless_leaking(pointer.ptr);
  return pointer.pitch * 7 * 5;
}

SUBJECT_FUNCTION size_t make_cudaMallocHost() {
  void* pointer = nullptr;
  must(cudaMallocHost(&pointer, 11005));
  if (!leak) must(cudaFreeHost(pointer));
  return 11005;
}

SUBJECT_FUNCTION size_t make_cudaHostAlloc() {
  void* pointer = nullptr;
  must(cudaHostAlloc(&pointer, 11007, cudaHostAllocPortable));
  if (!leak) must(cudaFreeHost(pointer));
  return 11007;
}

SUBJECT_FUNCTION size_t make_cudaHostRegister() {
  void* pointer = std::aligned_alloc(4096, 8192);
  must(cudaHostRegister(pointer, 8192, 0));
  if (!leak) must(cudaHostUnregister(pointer));
  return 8192;
}

SUBJECT_FUNCTION size_t make_cudaMallocArray() {
  const cudaChannelFormatDesc format = {32, 0, 0, 0, cudaChannelFormatKindFloat};
  cudaArray_t array = nullptr;
  must(cudaMallocArray(&array, &format, 101, 11, 0));
  if (!leak) must(cudaFreeArray(array));
  return 101 * 11 * 4;
}

SUBJECT_FUNCTION size_t make_cudaMalloc3DArray() {
  const cudaChannelFormatDesc format = {16, 0, 0, 0, cudaChannelFormatKindUnsigned};
  cudaArray_t array = nullptr;
  must(cudaMalloc3DArray(&array, &format, {64, 32, 16}, 0));
  if (!leak) must(cudaFreeArray(array));
  return 64 * 32 * 16 * 2;
}

SUBJECT_FUNCTION size_t make_cudaMallocMipmappedArray() {
  const cudaChannelFormatDesc format = {16, 0, 0, 0, cudaChannelFormatKindUnsigned};
  cudaMipmappedArray_t array = nullptr;
  must(cudaMallocMipmappedArray(&array, &format, {64, 32, 16}, 3, 0));
  if (!leak) must(cudaFreeMipmappedArray(array));
  return (64 * 32 * 16 + 32 * 16 * 8 + 16 * 8 * 4) * 2;
}

SUBJECT_FUNCTION size_t make_cudaMallocAsync() {
  void* pointer = nullptr;
  must(cudaMallocAsync(&pointer, 11011, nullptr));
  if (!leak) must(cudaFreeAsync(pointer, nullptr));
  must(cudaStreamSynchronize(nullptr));
  return 11011;
}

cudaMemPool_t create_pool() {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  must(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

SUBJECT_FUNCTION size_t make_cudaMallocFromPoolAsync() {
  cudaMemPool_t pool = create_pool();
  void* pointer = nullptr;
  must(cudaMallocFromPoolAsync(&pointer, 11017, pool, nullptr));
  if (!leak) must(cudaFreeAsync(pointer, nullptr));
  must(cudaStreamSynchronize(nullptr));
  must(cudaMemPoolDestroy(pool));
  return 11017;
}

SUBJECT_FUNCTION size_t make_cudaMemPoolCreate() {
  cudaMemPool_t pool = create_pool();
  if (!leak) must(cudaMemPoolDestroy(pool));
  return 0;
}

SUBJECT_FUNCTION size_t make_cudaStreamCreate() {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream));
  if (!leak) must(cudaStreamDestroy(stream));
  return 0;
}

SUBJECT_FUNCTION size_t make_cudaStreamCreateWithPriority() {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  if (!leak) must(cudaStreamDestroy(stream));
  return 0;
}

SUBJECT_FUNCTION size_t make_cudaEventCreate() {
  cudaEvent_t event = nullptr;
  must(cudaEventCreate(&event));
  if (!leak) must(cudaEventDestroy(event));
  return 0;
}

SUBJECT_FUNCTION size_t make_cudaGraphInstantiate() {
  cudaGraph_t graph = nullptr;
  must(cudaGraphCreate(&graph, 0));
  cudaGraphExec_t exec = nullptr;
  must(cudaGraphInstantiate(&exec, graph, 0));
  must(cudaGraphDestroy(graph));
  if (!leak) must(cudaGraphExecDestroy(exec));
  return 0;
}

SUBJECT_FUNCTION size_t make_cudaGraphCreate() {
  cudaGraph_t graph = nullptr;
  must(cudaGraphCreate(&graph, 0));
  if (!leak) must(cudaGraphDestroy(graph));
  return 0;
}

SUBJECT_FUNCTION size_t make_cudaGraphAddMemAllocNode() {
  cudaGraph_t graph = nullptr;
  must(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams parameters = {};
  parameters.poolProps.allocType = cudaMemAllocationTypePinned;
  parameters.poolProps.location.type = cudaMemLocationTypeDevice;
  parameters.bytesize = 11021;
  cudaGraphNode_t node = nullptr;
  must(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
  cudaGraphExec_t exec = nullptr;
  must(cudaGraphInstantiate(&exec, graph, 0));
  must(cudaGraphLaunch(exec, nullptr));
  must(cudaStreamSynchronize(nullptr));
  must(cudaGraphExecDestroy(exec));
  must(cudaGraphDestroy(graph));
  free_unless_leaking(parameters.dptr);
  return 11021;
}

SUBJECT_FUNCTION size_t make_cudaCreateTextureObject() {
  void* memory = nullptr;
  must(cudaMalloc(&memory, 4096));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = memory;
  resource.res.linear.desc = {32, 0, 0, 0, cudaChannelFormatKindFloat};
  resource.res.linear.sizeInBytes = 4096;
  const cudaTextureDesc description = {};
  cudaTextureObject_t texture = 0;
  must(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
  if (!leak) must(cudaDestroyTextureObject(texture));
  must(cudaFree(memory));
  return 0;
}

struct Row {
  const char* call;
  size_t (*make)();
};

#define ROW(call) \
  { #call, make_##call }
const Row kRows[] = {ROW(cudaMalloc),
                     ROW(cudaMallocManaged),
                     ROW(cudaMallocPitch),
                     ROW(cudaMalloc3D),
                     ROW(cudaMallocHost),
                     ROW(cudaHostAlloc),
                     ROW(cudaHostRegister),
                     ROW(cudaMallocArray),
                     ROW(cudaMalloc3DArray),
                     ROW(cudaMallocMipmappedArray),
                     ROW(cudaMallocAsync),
                     ROW(cudaMallocFromPoolAsync),
                     ROW(cudaMemPoolCreate),
                     ROW(cudaStreamCreate),
                     ROW(cudaStreamCreateWithPriority),
                     ROW(cudaEventCreate),
                     ROW(cudaGraphInstantiate),
                     ROW(cudaGraphCreate),
                     ROW(cudaGraphAddMemAllocNode),
                     ROW(cudaCreateTextureObject)};

}  // namespace

int main(int, char** argv) {
  leak = std::strcmp(argv[1], "leak") == 0;
  for (const Row& row : kRows) {
    try {
      printf("%s %zu\n", row.call, row.make());
    } catch (const Unsupported& unsupported) {
      printf("%s unsupported %d\n", row.call, unsupported.code);
    }
  }
  return 0;
}
