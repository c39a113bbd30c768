// The stand-in driver in other processes: after a fork, at exit, and with the settings of its environment.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/simcuda/context.h"

using namespace simcuda_test;

extern char** environ;

namespace {

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

}  // namespace

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
