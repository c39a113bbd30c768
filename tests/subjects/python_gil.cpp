// For Python through ctypes: an allocation by a thread that has a lock and not the GIL, while a thread that has the GIL
// waits for that lock.
#include <cuda.h>

#include <atomic>
#include <mutex>
#include <thread>

namespace {
std::mutex lock;
std::atomic<bool> locked{false};
std::atomic<bool> waiting{false};
}  // namespace

// Called without the GIL.
extern "C" __attribute__((visibility("default"))) int allocate_with_lock(CUcontext context) {
  std::lock_guard<std::mutex> guard(lock);
  locked = true;
  while (!waiting) std::this_thread::yield();
  CUdeviceptr pointer = 0;
  CUresult result = cuCtxSetCurrent(context);
  if (result == CUDA_SUCCESS) result = cuMemAlloc(&pointer, 11001);
  return result;
}

// Called with the GIL.
extern "C" __attribute__((visibility("default"))) void take_lock() {
  while (!locked) std::this_thread::yield();
  waiting = true;
  std::lock_guard<std::mutex> guard(lock);
}
