// Memory of the stand-in driver other than plain allocations: pools, VMM, IPC, graphs.
#include <cuda.h>
#include <unistd.h>

#include <cstring>

#include "tests/unit/simcuda/context.h"

using namespace simcuda_test;

TEST_CASE("a pool keeps freed memory until it is synchronized or trimmed", "[simcuda]") {
  DriverContext context;
  std::size_t before = used_bytes();
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  CUstream stream = nullptr;
  REQUIRE(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  cuuint64_t threshold = 64 * kMiB, reserved = 0, used = 0;
  REQUIRE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS);
  CUdeviceptr first = 0, second = 0;
  REQUIRE(cuMemAllocFromPoolAsync(&first, 10 * kMiB, pool, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemAllocFromPoolAsync(&second, 100 * kMiB, pool, stream) == CUDA_SUCCESS);
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS);
  CHECK(used == 110 * kMiB);
  CHECK(cuMemFreeAsync(first, stream) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(first, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(second) == CUDA_SUCCESS);  // waits, and so releases memory above the threshold
  CHECK(used_bytes() - before == 64 * kMiB);
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) == CUDA_SUCCESS);
  CHECK(reserved == 64 * kMiB);
  CHECK(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
  CHECK(used_bytes() == before);
  CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
  CHECK(cuMemAllocFromPoolAsync(&first, 1, pool, stream) == CUDA_ERROR_INVALID_VALUE);
  CUmemoryPool standard = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&standard, 0) == CUDA_SUCCESS);
  CHECK(cuMemPoolDestroy(standard) == CUDA_ERROR_NOT_PERMITTED);
}

TEST_CASE("a pool exported as a descriptor shows its allocations to the importer", "[simcuda]") {
  DriverContext context;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr, imported = nullptr;
  int descriptor = -1;
  CUmemPoolPtrExportData data{};
  CUdeviceptr memory = 0, alias = 0;
  REQUIRE(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
  REQUIRE(cuMemAllocFromPoolAsync(&memory, 5000, pool, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          CUDA_SUCCESS);
  void* handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  REQUIRE(cuMemPoolImportFromShareableHandle(&imported, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          CUDA_SUCCESS);
  close(descriptor);
  REQUIRE(cuMemPoolExportPointer(&data, memory) == CUDA_SUCCESS);
  REQUIRE(cuMemPoolImportPointer(&alias, imported, &data) == CUDA_SUCCESS);
  CHECK(alias != memory);
  CHECK(cuMemsetD8(memory, 42, 5000) == CUDA_SUCCESS);
  unsigned char byte = 0;
  CHECK(cuMemcpyDtoH(&byte, alias + 4999, 1) == CUDA_SUCCESS);
  CHECK(byte == 42);
  CHECK(cuMemFree(alias) == CUDA_SUCCESS);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
  CHECK(cuMemPoolDestroy(imported) == CUDA_SUCCESS);
  CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
}

TEST_CASE("VMM: physical memory lives until handles and mappings are gone", "[simcuda]") {
  DriverContext context;
  std::size_t before = used_bytes();
  CUmemAllocationProp properties = pinned_on(0);
  std::size_t granularity = 0;
  REQUIRE(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
  std::size_t bytes = 2 * granularity;
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle memory = 0, retained = 0, imported = 0;
  REQUIRE(cuMemAddressReserve(&range, 2 * bytes, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(used_bytes() == before);
  REQUIRE(cuMemCreate(&memory, bytes, &properties, 0) == CUDA_SUCCESS);
  CHECK(used_bytes() == before + bytes);
  REQUIRE(cuMemMap(range, bytes, 0, memory, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(range + bytes, bytes, 0, memory, 0) == CUDA_SUCCESS);
  char in[] = "mapped twice", out[sizeof(in)] = "";
  CHECK(cuMemcpyHtoD(range, in, sizeof(in)) == CUDA_ERROR_INVALID_VALUE);  // no access yet
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  REQUIRE(cuMemSetAccess(range, 2 * bytes, &access, 1) == CUDA_SUCCESS);
  CHECK(cuMemcpyHtoD(range, in, sizeof(in)) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(out, range + bytes, sizeof(in)) == CUDA_SUCCESS);
  CHECK(std::string(out) == in);
  CHECK(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(range + 100)) == CUDA_SUCCESS);
  CHECK(retained == memory);
  int descriptor = -1;
  REQUIRE(cuMemExportToShareableHandle(&descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          CUDA_SUCCESS);
  void* handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  CHECK(cuMemImportFromShareableHandle(&imported, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
  close(descriptor);
  for (int i = 0; i < 3; ++i) CHECK(cuMemRelease(memory) == CUDA_SUCCESS);
  CHECK(cuMemRelease(memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(used_bytes() == before + bytes);  // still mapped
  CHECK(cuMemAddressFree(range, 2 * bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(range, 2 * bytes) == CUDA_SUCCESS);
  CHECK(used_bytes() == before);
  CHECK(cuMemAddressFree(range, 2 * bytes) == CUDA_SUCCESS);
  CUmulticastObjectProp group{};
  group.numDevices = 1;
  group.size = bytes;
  CUmemGenericAllocationHandle multicast = 0;
  CHECK(cuMulticastCreate(&multicast, &group) == CUDA_SUCCESS);
  CHECK(cuMulticastAddDevice(multicast, 0) == CUDA_SUCCESS);
  CHECK(cuMemRelease(multicast) == CUDA_SUCCESS);
}

TEST_CASE("IPC and external memory", "[simcuda]") {
  DriverContext context;
  CUdeviceptr memory = 0, opened = 0, again = 0, buffer = 0;
  CUipcMemHandle handle{};
  REQUIRE(cuMemAlloc(&memory, 4 * kMiB) == CUDA_SUCCESS);
  REQUIRE(cuIpcGetMemHandle(&handle, memory) == CUDA_SUCCESS);
  REQUIRE(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
  REQUIRE(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
  CHECK((opened != memory && opened == again));
  CHECK(cuMemsetD8(memory, 9, 100) == CUDA_SUCCESS);
  unsigned char byte = 0;
  CHECK(cuMemcpyDtoH(&byte, opened + 99, 1) == CUDA_SUCCESS);
  CHECK(byte == 9);
  CHECK(cuMemFree(opened) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuIpcCloseMemHandle(opened) == CUDA_SUCCESS);
  CHECK(cuIpcCloseMemHandle(opened) == CUDA_SUCCESS);
  CHECK(cuIpcCloseMemHandle(opened) == CUDA_ERROR_INVALID_VALUE);

  CUevent event = nullptr, event_copy = nullptr;
  CUipcEventHandle event_handle{};
  REQUIRE(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  CHECK(cuIpcGetEventHandle(&event_handle, event) == CUDA_SUCCESS);
  CHECK(cuIpcOpenEventHandle(&event_copy, event_handle) == CUDA_SUCCESS);
  CHECK(cuEventDestroy(event_copy) == CUDA_SUCCESS);

  CUDA_EXTERNAL_MEMORY_HANDLE_DESC external{};
  external.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  external.handle.fd = dup(0);
  external.size = kMiB;
  CUexternalMemory imported = nullptr;
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC part{};
  part.size = 5000;
  REQUIRE(cuImportExternalMemory(&imported, &external) == CUDA_SUCCESS);
  REQUIRE(cuExternalMemoryGetMappedBuffer(&buffer, imported, &part) == CUDA_SUCCESS);
  CHECK(cuMemsetD8(buffer, 1, 5000) == CUDA_SUCCESS);
  CHECK(cuMemFree(buffer) == CUDA_SUCCESS);
  CHECK(cuDestroyExternalMemory(imported) == CUDA_SUCCESS);
  CHECK(cuDestroyExternalMemory(imported) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("graph memory becomes physical at launch", "[simcuda]") {
  DriverContext context;
  std::size_t before = used_bytes();
  CUgraph graph = nullptr;
  CUgraphNode allocated = nullptr, freed = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  parameters.bytesize = 3 * kMiB;
  REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddMemAllocNode(&allocated, graph, nullptr, 0, &parameters) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  CHECK(used_bytes() == before);
  CHECK(cuMemsetD8(parameters.dptr, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuGraphLaunch(exec, nullptr) == CUDA_SUCCESS);
  CHECK(used_bytes() == before + 3 * kMiB);
  CHECK(cuMemsetD8(parameters.dptr, 1, 1) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, nullptr) == CUDA_ERROR_INVALID_VALUE);  // not freed since the last launch
  CHECK(cuMemFreeAsync(parameters.dptr, nullptr) == CUDA_SUCCESS);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddMemFreeNode(&freed, graph, &allocated, 1, parameters.dptr) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, nullptr) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, nullptr) == CUDA_SUCCESS);
  CHECK(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
  CHECK(used_bytes() == before);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory allocated under stream capture is graph memory", "[simcuda]") {
  DriverContext context;
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUdeviceptr memory = 0, direct = 0;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  REQUIRE(cuMemAllocAsync(&memory, 4096, stream) == CUDA_SUCCESS);
  CHECK(cuMemsetD8Async(memory, 5, 4096, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  std::size_t nodes = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &nodes) == CUDA_SUCCESS);
  CHECK(nodes == 2);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
  unsigned char byte = 0;
  CHECK(cuMemcpyDtoH(&byte, memory + 4095, 1) == CUDA_SUCCESS);
  CHECK(byte == 5);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);

  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CHECK(cuMemAlloc(&direct, 4096) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(cuMemAlloc(&direct, 4096) == CUDA_SUCCESS);
}
