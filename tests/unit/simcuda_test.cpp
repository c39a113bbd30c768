// The stand-in driver and runtime of tests/simcuda: what tests of the library rely on.
#define CATCH_CONFIG_MAIN
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"

extern char** environ;

namespace {

// A context of its own for each test, destroyed with what the test left in it.
struct DriverContext {
  explicit DriverContext(int device = 0) {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuCtxCreate(&handle, nullptr, 0, device) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);  // pools give back what an earlier test left idle
  }
  ~DriverContext() { cuCtxDestroy(handle); }
  CUcontext handle = nullptr;
};

std::size_t used_bytes() {
  std::size_t free_bytes = 0, total = 0;
  REQUIRE(cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS);
  return total - free_bytes;
}

// Runs one of the hidden test cases below in a process of its own with `settings` in its environment. Returns the exit
// code.
int run_child(const char* test, const std::vector<std::string>& settings) {
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  for (const std::string& setting : settings) environment.push_back(const_cast<char*>(setting.c_str()));
  environment.push_back(nullptr);
  char* arguments[] = {const_cast<char*>("simcuda_test"), const_cast<char*>(test), nullptr};
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environment.data()) == 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

CUmemAllocationProp pinned_on(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace

TEST_CASE("device memory is real: it copies, counts and frees", "[simcuda]") {
  DriverContext context;
  std::size_t before = used_bytes();
  CUdeviceptr large = 0, small = 0;
  REQUIRE(cuMemAlloc(&large, 1024 * kMiB) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc(&small, 11001) == CUDA_SUCCESS);
  CHECK(used_bytes() - before == 1024 * kMiB + 11264);
  char in[] = "through the device", out[sizeof(in)] = "";
  CHECK(cuMemcpyHtoD(large + 512 * kMiB, in, sizeof(in)) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoD(small, large + 512 * kMiB, sizeof(in)) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(out, small, sizeof(in)) == CUDA_SUCCESS);
  CHECK(std::string(out) == in);
  CHECK(cuMemcpyHtoD(small + 11000, in, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD32(small, 0x01020304, 4) == CUDA_SUCCESS);
  std::uint32_t word = 0;
  CHECK(cuMemcpyDtoH(&word, small + 12, 4) == CUDA_SUCCESS);
  CHECK(word == 0x01020304);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  CHECK(cuMemGetAddressRange(&base, &bytes, small + 100) == CUDA_SUCCESS);
  CHECK((base == small && bytes == 11001));
  CHECK(cuMemFree(small) == CUDA_SUCCESS);
  CHECK(cuMemFree(large) == CUDA_SUCCESS);
  CHECK(used_bytes() == before);
}

TEST_CASE("refused frees get the driver's error codes", "[simcuda]") {
  DriverContext context;
  CUdeviceptr device = 0;
  void* host = nullptr;
  REQUIRE(cuMemAlloc(&device, 4096) == CUDA_SUCCESS);
  REQUIRE(cuMemHostAlloc(&host, 4096, 0) == CUDA_SUCCESS);
  CHECK(cuMemFree(0) == CUDA_SUCCESS);
  CHECK(cuMemFree(device + 256) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(reinterpret_cast<CUdeviceptr>(host)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeHost(reinterpret_cast<void*>(device)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(device) == CUDA_SUCCESS);
  CHECK(cuMemFree(device) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeHost(host) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(host) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a destroyed context takes its memory with it", "[simcuda]") {
  DriverContext outer;
  std::size_t before = used_bytes();
  CUcontext inner = nullptr;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  REQUIRE(cuCtxCreate(&inner, nullptr, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc(&memory, 4096) == CUDA_SUCCESS);
  REQUIRE(cuStreamCreate(&stream, 0) == CUDA_SUCCESS);
  CUresult seen_by_thread = CUDA_SUCCESS;
  CHECK(cuCtxSetCurrent(inner) == CUDA_SUCCESS);
  std::thread other([&] {
    cuCtxSetCurrent(inner);
    cuCtxDestroy(inner);
    CUdeviceptr ignored;
    seen_by_thread = cuMemAlloc(&ignored, 1);
  });
  other.join();
  CHECK(seen_by_thread == CUDA_ERROR_INVALID_CONTEXT);  // the destroying thread lost it
  CHECK(cuMemFree(memory) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext popped = nullptr;
  CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
  CHECK(cuMemFree(memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamDestroy(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuCtxSetCurrent(inner) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(used_bytes() == before);
}

TEST_CASE("primary contexts are counted, reset and usable again", "[simcuda]") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CUcontext first = nullptr, second = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&first, 0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&second, 0) == CUDA_SUCCESS);
  CHECK(first == second);
  REQUIRE(cuCtxPushCurrent(first) == CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc(&memory, 4096) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
  REQUIRE(cuMemAlloc(&memory, 4096) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
  CHECK(cuMemFree(memory) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  unsigned flags = 0;
  int active = 1;
  CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS);
  CHECK(active == 0);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  cuCtxPopCurrent(nullptr);
}

TEST_CASE("green contexts", "[simcuda]") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CUdevResource all{}, part{};
  unsigned groups = 1;
  CUdevResourceDesc descriptor = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  REQUIRE(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
  REQUIRE(cuDevSmResourceSplitByCount(&part, &groups, &all, nullptr, 0, 16) == CUDA_SUCCESS);
  CHECK(part.sm.smCount == 16);
  REQUIRE(cuDevResourceGenerateDesc(&descriptor, &part, 1) == CUDA_SUCCESS);
  REQUIRE(cuGreenCtxCreate(&green, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
  REQUIRE(cuCtxFromGreenCtx(&context, green) == CUDA_SUCCESS);
  REQUIRE(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxPushCurrent(context) == CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  CHECK(cuMemAllocAsync(&memory, 4096, stream) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(memory, stream) == CUDA_SUCCESS);
  cuCtxPopCurrent(nullptr);
  CHECK(cuGreenCtxDestroy(green) == CUDA_SUCCESS);
  CHECK(cuGreenCtxDestroy(green) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("managed, pitched, pinned and registered memory", "[simcuda]") {
  DriverContext context;
  CUdeviceptr managed = 0, pitched = 0, mapped = 0;
  std::size_t pitch = 0;
  void* pinned = nullptr;
  std::vector<char> own(10000);
  REQUIRE(cuMemAllocManaged(&managed, 20001, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  memset(reinterpret_cast<void*>(managed), 7, 20001);
  REQUIRE(cuMemAllocPitch(&pitched, &pitch, 1000, 3, 4) == CUDA_SUCCESS);
  CHECK(pitch == 1024);
  REQUIRE(cuMemAllocHost(&pinned, 5000) == CUDA_SUCCESS);
  REQUIRE(cuMemHostRegister(own.data(), own.size(), 0) == CUDA_SUCCESS);
  CHECK(cuMemHostRegister(own.data() + 100, 10, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(cuMemHostGetDevicePointer(&mapped, pinned, 0) == CUDA_SUCCESS);
  unsigned type = 0, is_managed = 0;
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mapped) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_HOST);
  CHECK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed) == CUDA_SUCCESS);
  CHECK(is_managed == 1);
  CHECK(cuMemHostUnregister(own.data()) == CUDA_SUCCESS);
  CHECK(cuMemHostUnregister(own.data()) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK(cuMemFreeHost(pinned) == CUDA_SUCCESS);
  CHECK(cuMemFree(pitched) == CUDA_SUCCESS);
  CHECK(cuMemFree(managed) == CUDA_SUCCESS);
}

TEST_CASE("arrays, mipmapped arrays, textures and surfaces", "[simcuda]") {
  DriverContext context;
  std::size_t before = used_bytes();
  CUDA_ARRAY3D_DESCRIPTOR descriptor{64, 32, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
  CUarray array = nullptr, level = nullptr;
  CUmipmappedArray mipmapped = nullptr;
  REQUIRE(cuArray3DCreate(&array, &descriptor) == CUDA_SUCCESS);
  CHECK(used_bytes() - before == 64 * 32 * 4);
  REQUIRE(cuMipmappedArrayCreate(&mipmapped, &descriptor, 3) == CUDA_SUCCESS);
  REQUIRE(cuMipmappedArrayGetLevel(&level, mipmapped, 1) == CUDA_SUCCESS);
  CUDA_ARRAY_DESCRIPTOR half{};
  CHECK(cuArrayGetDescriptor(&half, level) == CUDA_SUCCESS);
  CHECK((half.Width == 32 && half.Height == 16));
  float in[64], out[64] = {};
  for (int i = 0; i < 64; ++i) in[i] = static_cast<float>(i);
  CHECK(cuMemcpyHtoA(array, 0, in, sizeof(in)) == CUDA_SUCCESS);
  CHECK(cuMemcpyAtoH(out, array, 0, sizeof(out)) == CUDA_SUCCESS);
  CHECK(memcmp(in, out, sizeof(in)) == 0);
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUDA_TEXTURE_DESC sampling{};
  CUtexObject texture = 0;
  CUsurfObject surface = 0;
  REQUIRE(cuTexObjectCreate(&texture, &resource, &sampling, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuSurfObjectCreate(&surface, &resource) == CUDA_SUCCESS);
  CHECK(cuTexObjectDestroy(texture) == CUDA_SUCCESS);
  CHECK(cuTexObjectDestroy(texture) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuSurfObjectDestroy(surface) == CUDA_SUCCESS);
  CHECK(cuArrayDestroy(array) == CUDA_SUCCESS);
  CHECK(cuArrayDestroy(array) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuMipmappedArrayDestroy(mipmapped) == CUDA_SUCCESS);
  CHECK(used_bytes() == before);
}

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
  CHECK(cuMemFree(second) == CUDA_SUCCESS);  // waits, and so gives back what is above the threshold
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

TEST_CASE("events, modules, libraries, kernels, links and user objects", "[simcuda]") {
  DriverContext context;
  CUevent start = nullptr, end = nullptr;
  REQUIRE(cuEventCreate(&start, 0) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&end, 0) == CUDA_SUCCESS);
  CHECK(cuEventRecord(start, nullptr) == CUDA_SUCCESS);
  CHECK(cuEventRecord(end, nullptr) == CUDA_SUCCESS);
  float milliseconds = -1;
  CHECK(cuEventElapsedTime(&milliseconds, start, end) == CUDA_SUCCESS);
  CHECK(milliseconds >= 0);
  CHECK(cuEventDestroy(start) == CUDA_SUCCESS);
  CHECK(cuEventDestroy(start) == CUDA_ERROR_INVALID_HANDLE);

  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr global = 0;
  std::size_t bytes = 0;
  REQUIRE(cuModuleLoadData(&module, "image") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&function, module, "kernel") == CUDA_SUCCESS);
  CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS);
  CHECK(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleGetGlobal(&global, &bytes, module, "variable") == CUDA_SUCCESS);
  CHECK(cuMemsetD8(global, 3, 4) == CUDA_SUCCESS);
  CHECK(cuMemFree(global) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
  CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_HANDLE);

  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  REQUIRE(cuLibraryLoadData(&library, "image", nullptr, nullptr, 0, nullptr, nullptr, 0) == CUDA_SUCCESS);
  REQUIRE(cuLibraryGetKernel(&kernel, library, "kernel") == CUDA_SUCCESS);
  CHECK(cuKernelGetFunction(&function, kernel) == CUDA_SUCCESS);
  // The runtime takes a kernel's handle in the place of a function.
  CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), nullptr, 0, nullptr) == cudaSuccess);
  CHECK(cudaLaunchKernel(&library, dim3(1), dim3(1), nullptr, 0, nullptr) == cudaErrorInvalidDeviceFunction);
  CHECK(cuLibraryUnload(library) == CUDA_SUCCESS);
  CHECK(cuLibraryUnload(library) == CUDA_ERROR_INVALID_HANDLE);

  CUlinkState link = nullptr;
  REQUIRE(cuLinkCreate(0, nullptr, nullptr, &link) == CUDA_SUCCESS);
  CHECK(cuLinkDestroy(link) == CUDA_SUCCESS);

  int destroyed = 0;
  CUuserObject object = nullptr;
  REQUIRE(cuUserObjectCreate(
              &object, &destroyed, [](void* count) { ++*static_cast<int*>(count); }, 2,
              CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) == CUDA_SUCCESS);
  CHECK(cuUserObjectRelease(object, 1) == CUDA_SUCCESS);
  CHECK(destroyed == 0);
  CHECK(cuUserObjectRelease(object, 1) == CUDA_SUCCESS);
  CHECK(destroyed == 1);
}

TEST_CASE("cuGetProcAddress picks by version and default stream", "[simcuda]") {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(driver != nullptr);
  auto look_up = [](const char* name, int version, cuuint64_t flags) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult result;
    cuGetProcAddress(name, &found, version, flags, &result);
    return found;
  };
  CHECK(look_up("cuMemAlloc", 13000, 0) == dlsym(driver, "cuMemAlloc_v2"));
  CHECK(look_up("cuMemAlloc", 3000, 0) == dlsym(driver, "cuMemAlloc"));
  CHECK(look_up("cuCtxCreate", 11040, 0) == dlsym(driver, "cuCtxCreate_v3"));
  CHECK(look_up("cuMemAllocAsync", 13000, 2) == dlsym(driver, "cuMemAllocAsync_ptsz"));
  CHECK(look_up("cuMemAllocAsync", 13000, 1) == dlsym(driver, "cuMemAllocAsync"));
  CHECK(look_up("cuMemcpyHtoD", 13000, 2) == dlsym(driver, "cuMemcpyHtoD_v2_ptds"));
  CHECK(look_up("cuInit", 12000, 2) == dlsym(driver, "cuInit"));
  void* found = nullptr;
  CUdriverProcAddressQueryResult result;
  CHECK(cuGetProcAddress("cuNoSuchThing", &found, 13000, 0, &result) == CUDA_ERROR_NOT_FOUND);
  CHECK(result == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK(cuGetProcAddress("cuMemAlloc", &found, 1000, 0, &result) == CUDA_ERROR_NOT_FOUND);
  CHECK(result == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  dlclose(driver);
}

TEST_CASE("what is not simulated says so", "[simcuda]") {
  DriverContext context;
  CHECK(cuGetExportTable(nullptr, nullptr) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cudaLogsUnregisterCallback(nullptr) == cudaErrorNotSupported);
}

TEST_CASE("the runtime works on the primary context", "[simcuda]") {
  cuCtxSetCurrent(nullptr);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 11001) == cudaSuccess);
  int device = -1;
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  CHECK(device == 0);
  char in[] = "runtime", out[sizeof(in)] = "";
  CHECK(cudaMemcpy(memory, in, sizeof(in), cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(out, memory, sizeof(in), cudaMemcpyDefault) == cudaSuccess);
  CHECK(std::string(out) == in);
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, memory) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(cudaPointerGetAttributes(&attributes, out) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaFree(nullptr) == cudaSuccess);

  cudaArray_t array = nullptr;
  cudaChannelFormatDesc channel = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  CHECK(cudaMallocArray(&array, &channel, 16, 16, 0) == cudaSuccess);
  CHECK(cudaFreeArray(array) == cudaSuccess);
  CHECK(cudaMallocAsync(&memory, 4096, nullptr) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaMallocHost(&memory, 4096) == cudaSuccess);
  CHECK(cudaFreeHost(memory) == cudaSuccess);
  CHECK(cudaMallocManaged(&memory, 4096, cudaMemAttachGlobal) == cudaSuccess);
  CHECK(cudaDeviceReset() == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);  // went with the reset
  std::thread([] {
    void* other = nullptr;
    CHECK(cudaMalloc(&other, 100) == cudaSuccess);
    CHECK(cudaFree(other) == cudaSuccess);
  }).join();
}

TEST_CASE("memory of a pool outlives the context that it was made in", "[simcuda]") {
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  void* memory = nullptr;
  REQUIRE(cudaMallocAsync(&memory, 1 << 20, nullptr) == cudaSuccess);
  REQUIRE(cudaDeviceReset() == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("16 threads allocate and free across threads", "[simcuda]") {
  DriverContext context;
  std::size_t before = used_bytes();
  std::vector<CUdeviceptr> memory(1600);
  auto in_threads = [&](auto work) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 16; ++t) {
      threads.emplace_back([&, t] {
        cuCtxSetCurrent(context.handle);
        for (int i = 0; i < 100; ++i) work(t, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  in_threads([&](int t, int i) { cuMemAlloc(&memory[t * 100 + i], 1000); });
  CHECK(used_bytes() - before == 1600 * 1024);
  in_threads([&](int t, int i) { cuMemFree(memory[(15 - t) * 100 + i]); });
  CHECK(used_bytes() == before);
}

TEST_CASE("a fork child has a driver of its own", "[simcuda]") {
  DriverContext context;
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc(&memory, 4096) == CUDA_SUCCESS);
  pid_t child = fork();
  if (child == 0) {
    CUdeviceptr own = 0;
    CUcontext own_context = nullptr;
    bool good = cuMemFree(memory) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_SUCCESS &&
                cuMemFree(memory) == CUDA_ERROR_INVALID_CONTEXT &&
                cuCtxCreate(&own_context, nullptr, 0, 0) == CUDA_SUCCESS && cuMemAlloc(&own, 4096) == CUDA_SUCCESS &&
                cuMemsetD8(own, 1, 4096) == CUDA_SUCCESS && cuMemFree(own) == CUDA_SUCCESS;
    void* from_runtime = nullptr;
    good = good && cudaMalloc(&from_runtime, 10) == cudaSuccess && cudaFree(from_runtime) == cudaSuccess;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}

TEST_CASE("the settings in the environment do what they say", "[simcuda]") {
  CHECK(run_child("child: two devices", {"SIMCUDA_DEVICES=2"}) == 0);
  CHECK(run_child("child: same addresses", {"SIMCUDA_DEVICES=2", "SIMCUDA_SAME_ADDRESSES=1"}) == 0);
  CHECK(run_child("child: little memory", {"SIMCUDA_MEMORY_MB=64"}) == 0);
  CHECK(run_child("child: injected failures",
                  {"SIMCUDA_FAIL=cuMemAlloc:2:CUDA_ERROR_OUT_OF_MEMORY,cuMemFree_v2:1:4"}) == 0);
  CHECK(run_child("child: two devices", {"SIMCUDA_FAIL=cuMemAlloc"}) == 125);
  CHECK(run_child("child: no device", {"SIMCUDA_DEVICES=0"}) == 0);
}

TEST_CASE("at exit the driver is gone before late destructors", "[simcuda]") {
  CHECK(run_child("child: late free", {}) == 42);
}

TEST_CASE("child: two devices", "[.child]") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  int count = 0;
  CHECK(cuDeviceGetCount(&count) == CUDA_SUCCESS);
  CHECK(count == 2);
  CUuuid first{}, second{};
  CHECK(cuDeviceGetUuid(&first, 0) == CUDA_SUCCESS);
  CHECK(cuDeviceGetUuid(&second, 1) == CUDA_SUCCESS);
  CHECK(memcmp(&first, &second, sizeof(first)) != 0);
  void *a = nullptr, *b = nullptr;
  CHECK(cudaMalloc(&a, 1000) == cudaSuccess);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaMalloc(&b, 1000) == cudaSuccess);
  CHECK(a != b);
  int value = 77, back = 0;
  CHECK(cudaMemcpy(a, &value, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpyPeer(b, 1, a, 0, 4) == cudaSuccess);
  CHECK(cudaMemcpy(&back, b, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(back == 77);
  CHECK(cudaFree(a) == cudaSuccess);  // unified addresses: any current device will do
  CHECK(cudaFree(b) == cudaSuccess);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
}

TEST_CASE("child: same addresses", "[.child]") {
  void *a = nullptr, *b = nullptr;
  CHECK(cudaMalloc(&a, 1000) == cudaSuccess);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaMalloc(&b, 1000) == cudaSuccess);
  CHECK(a == b);
  int one = 1, zero = 0, back = -1;
  CHECK(cudaMemcpy(b, &one, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaMemcpy(a, &zero, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaFree(a) == cudaSuccess);
  CHECK(cudaFree(a) == cudaErrorInvalidValue);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaMemcpy(&back, b, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(back == 1);
  CHECK(cudaFree(b) == cudaSuccess);
}

TEST_CASE("child: little memory", "[.child]") {
  DriverContext context;
  CUdeviceptr first = 0, second = 0;
  CHECK(cuMemAlloc(&first, 40 * kMiB) == CUDA_SUCCESS);
  CHECK(cuMemAlloc(&second, 40 * kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemFree(first) == CUDA_SUCCESS);
  CHECK(cuMemAlloc(&second, 40 * kMiB) == CUDA_SUCCESS);
}

TEST_CASE("child: injected failures", "[.child]") {
  DriverContext context;
  CUdeviceptr memory = 0, other = 0;
  CHECK(cuMemAlloc(&memory, 100) == CUDA_SUCCESS);
  std::size_t before = used_bytes();
  CHECK(cuMemAlloc(&other, 100) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(used_bytes() == before);
  CHECK(cuMemAlloc(&other, 100) == CUDA_SUCCESS);
  CHECK(cuMemFree(memory) == CUDA_ERROR_DEINITIALIZED);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}

TEST_CASE("child: no device", "[.child]") {
  CHECK(cuInit(0) == CUDA_ERROR_NO_DEVICE);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 1) == cudaErrorNoDevice);
}

namespace {
struct LateFree {
  void* memory = nullptr;
  ~LateFree() {
    if (memory != nullptr) _exit(cudaFree(memory) == cudaErrorCudartUnloading ? 42 : 1);
  }
} late_free;
}  // namespace

TEST_CASE("child: late free", "[.child]") { REQUIRE(cudaMalloc(&late_free.memory, 100) == cudaSuccess); }
