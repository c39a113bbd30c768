// The cheapest possible tool on CUPTI: a subscriber whose callback for the allocation calls of the driver does nothing.
// The driver loads this library (CUDA_INJECTION64_PATH). BENCH_CUPTI is the path of libcupti.so, which is opened and
// not linked, so that the benchmark needs only CUPTI's headers. Each error ends the process, because a benchmark
// without a subscriber would look like a good result.
#include <cupti.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

std::atomic<bool> called{false};

void CUPTIAPI nothing(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {
  if (!called.load(std::memory_order_relaxed)) called.store(true, std::memory_order_relaxed);
}

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "empty_subscriber: %s\n", what);
  _exit(125);
}

void check_called() {
  if (!called.load()) give_up("no callback ever came");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* path = std::getenv("BENCH_CUPTI");
  void* cupti = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (cupti == nullptr) give_up("BENCH_CUPTI does not name a libcupti.so that can be loaded");
  auto subscribe = reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(cupti, "cuptiSubscribe"));
  auto enable = reinterpret_cast<decltype(&cuptiEnableCallback)>(dlsym(cupti, "cuptiEnableCallback"));
  if (subscribe == nullptr || enable == nullptr) give_up("libcupti.so lacks cuptiSubscribe or cuptiEnableCallback");
  CUpti_SubscriberHandle subscriber = nullptr;
  if (subscribe(&subscriber, nothing, nullptr) != CUPTI_SUCCESS) give_up("cuptiSubscribe failed");
  for (CUpti_driver_api_trace_cbid call :
       {CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2,
        CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync, CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync, CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz}) {
    if (enable(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, call) != CUPTI_SUCCESS) give_up("cuptiEnableCallback failed");
  }
  // Programs that only start make none of these calls.
  if (std::getenv("BENCH_CUPTI_NO_CALLS") == nullptr) std::atexit(check_called);
  return 1;
}
