// The stand-in driver and runtime of tests/simcuda: the behaviour that tests of the library rely on.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/unit/simcuda/context.h"

using namespace simcuda_test;

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
  CHECK(seen_by_thread == CUDA_ERROR_INVALID_CONTEXT);  // not current in the destroying thread any more
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

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST_CASE("an attached context is destroyed by its last detach", "[simcuda]") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CUcontext context = nullptr, attached = nullptr;
  REQUIRE(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxAttach(&attached, 0) == CUDA_SUCCESS);
  CHECK(attached == context);
  CHECK(cuCtxAttach(&attached, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxDetach(context) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(cuCtxDetach(context) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_ERROR_INVALID_CONTEXT);
}
#pragma GCC diagnostic pop

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

TEST_CASE("functions that are not simulated say so", "[simcuda]") {
  DriverContext context;
  CHECK(cuDeviceGetLuid(nullptr, nullptr, 0) == CUDA_ERROR_NOT_SUPPORTED);
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
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);  // destroyed by the reset
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
