// The cost of a short thread: short_threads COUNT
//
// Starts COUNT threads, one after the other. Each makes one allocation and frees it, or keeps it, and ends. Prints the
// processor time of the process for each thread in nanoseconds, without that of the first threads.
#include <cuda.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

CUcontext context;

void fail(const char* call) {
  std::fprintf(stderr, "short_threads: %s failed\n", call);
  std::exit(1);
}

double processor_ns() {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto nanoseconds = [](const struct timeval& time) {
    return 1e9 * static_cast<double>(time.tv_sec) + 1e3 * static_cast<double>(time.tv_usec);
  };
  return nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
}

void use_cuda(bool frees) {
  CUdeviceptr memory = 0;
  if (cuCtxSetCurrent(context) != CUDA_SUCCESS) fail("cuCtxSetCurrent");
  if (cuMemAlloc(&memory, 512) != CUDA_SUCCESS) fail("cuMemAlloc");
  if (frees && cuMemFree(memory) != CUDA_SUCCESS) fail("cuMemFree");
}

double time_of_thread(int count, bool frees) {
  constexpr int kFirst = 50;
  double begin = 0;
  for (int i = -kFirst; i < count; ++i) {
    if (i == 0) begin = processor_ns();
    std::thread(use_cuda, frees).join();
  }
  return (processor_ns() - begin) / count;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc == 2 ? std::atoi(argv[1]) : 0;
  if (count < 1) return 2;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) fail("the start");
  std::printf("short_thread=%.0f\n", time_of_thread(count, true));
  std::printf("short_thread_keeps=%.0f\n", time_of_thread(count, false));
  return 0;
}
