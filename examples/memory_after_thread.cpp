// Question: "my worker threads have ended, but the GPU memory they used is still taken. Does a thread not free its
// memory?"
//
// Device memory belongs to the context, and all threads share the device's primary context: nothing is freed when a
// thread ends.
//
// True report: one leak of 128 MiB in 4 allocations from take_scratch, made by threads that have ended. With --clean
// (each thread frees its memory) and --free-in-main (another thread frees it, which is allowed): nothing.
//
// run:
// expect: leak bytes=134217728 count=4 function=take_scratch api=cudaMalloc threads=4 ended-threads=4
// run: --clean
// expect: clean
// run: --free-in-main
// expect: clean
#include <array>
#include <thread>

#include "examples/check.h"

EXAMPLE_NOINLINE void* take_scratch() {
  void* scratch = nullptr;
  check(cudaMalloc(&scratch, size_t{32} << 20), "allocate scratch memory");  // leak-here
  return scratch;
}

void work(void** scratch, bool clean) {
  *scratch = take_scratch();
  check(cudaMemset(*scratch, 0, size_t{32} << 20), "work");
  if (clean) check(cudaFree(*scratch), "free the scratch memory");
}

int main(int argc, char** argv) {
  bool clean = has_argument(argc, argv, "--clean");
  std::array<void*, 4> scratches = {};
  std::array<std::thread, 4> workers;
  for (size_t i = 0; i < workers.size(); ++i) workers[i] = std::thread(work, &scratches[i], clean);
  for (std::thread& worker : workers) worker.join();
  if (has_argument(argc, argv, "--free-in-main")) {
    for (void* scratch : scratches) check(cudaFree(scratch), "free a worker's scratch memory");
  }
  return 0;
}
