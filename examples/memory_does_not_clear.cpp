// Question: "I call cudaFree, but the GPU memory does not clear until the program ends. What is missing:
// cudaDeviceSynchronize? cudaDeviceReset?"
//
// cudaFree gives the memory back, with or without a synchronization and a reset after it. nvidia-smi still shows the
// memory of the context. A reset in place of a free ends the memory, but hides the mistake: culprit reports that the
// memory ended with its context.
//
// True report: nothing when the memory is freed. With --forget one leak of 1.00 GiB from hold_gigabyte. With --forget
// --reset the same leak, with the cause context-teardown and the call of cudaDeviceReset as evidence.
//
// run:
// expect: clean
// run: --synchronize
// expect: clean
// run: --reset
// expect: clean
// run: --synchronize --reset
// expect: clean
// run: --forget
// expect: leak bytes=1073741824 count=1 function=hold_gigabyte api=cudaMalloc cause=never-freed
// run: --forget --reset
// expect: leak bytes=1073741824 count=1 function=hold_gigabyte api=cudaMalloc cause=context-teardown
#include "examples/check.h"

EXAMPLE_NOINLINE void* hold_gigabyte() {
  void* memory = nullptr;
  check(cudaMalloc(&memory, size_t{1} << 30), "allocate 1 GiB");  // leak-here
  return memory;
}

EXAMPLE_NOINLINE void print_used(const char* when) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "ask for the memory in use");
  std::printf("%-18s %6zu MiB in use on the GPU\n", when, (total_bytes - free_bytes) >> 20);
}

int main(int argc, char** argv) {
  print_used("before");
  void* memory = hold_gigabyte();
  print_used("allocated");
  if (!has_argument(argc, argv, "--forget")) check(cudaFree(memory), "free it");
  if (has_argument(argc, argv, "--synchronize")) check(cudaDeviceSynchronize(), "wait for the GPU");
  print_used("freed");
  if (has_argument(argc, argv, "--reset")) check(cudaDeviceReset(), "reset the device");
  return 0;
}
