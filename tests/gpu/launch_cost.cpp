// Measures calls that the library must not slow down: launch_cost [LAUNCHES [PAIRS]] prints the best nanoseconds per
// kernel launch and per pair of cuMemAllocAsync and cuMemFreeAsync, as "launch_ns=... pair_ns=...". Run it with and
// without LD_PRELOAD and compare.
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/support/empty_kernel.h"

namespace {

void check(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(status, &name);
  std::fprintf(stderr, "%s: %s\n", what, name != nullptr ? name : "unknown error");
  std::exit(1);
}

// Best of several rounds, in nanoseconds per call of `body`: a disturbance of a measurement only makes it slower.
template <typename Body>
double best_ns(int calls, CUstream stream, Body body) {
  constexpr int kRounds = 7;
  double best = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) body();
    auto end = std::chrono::steady_clock::now();
    check(cuStreamSynchronize(stream), "synchronize");
    best = std::min(best, std::chrono::duration<double, std::nano>(end - begin).count() / calls);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  int launches = argc > 1 ? std::atoi(argv[1]) : 100000;
  int pairs = argc > 2 ? std::atoi(argv[2]) : 100000;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUstream stream = nullptr;
  check(cuInit(0), "initialize");
  check(cuDeviceGet(&device, 0), "find a device");
  check(cuDevicePrimaryCtxRetain(&context, device), "retain the primary context");
  check(cuCtxSetCurrent(context), "make it current");
  check(cuModuleLoadData(&module, kEmptyKernel), "load the kernel");
  check(cuModuleGetFunction(&kernel, module, "empty_kernel"), "find the kernel");
  check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "create a stream");

  auto launch = [&] { check(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr), "launch"); };
  auto pair = [&] {
    CUdeviceptr memory = 0;
    check(cuMemAllocAsync(&memory, 4096, stream), "allocate");
    check(cuMemFreeAsync(memory, stream), "free");
  };
  for (int i = 0; i < 1000; ++i) {
    launch();
    pair();
  }
  double launch_ns = best_ns(launches, stream, launch);
  double pair_ns = best_ns(pairs, stream, pair);
  std::printf("launch_ns=%.1f pair_ns=%.1f\n", launch_ns, pair_ns);

  check(cuStreamDestroy(stream), "destroy the stream");
  check(cuModuleUnload(module), "unload the module");
  check(cuDevicePrimaryCtxRelease(device), "release the primary context");
  return 0;
}
