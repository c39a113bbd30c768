// Question: "with two GPUs, memory stays taken on the second one. Whose is it?"
//
// One buffer on each GPU, a copy between them, and managed memory that both use. With --forget the buffer of the second
// GPU is not freed. The simulated driver can use the same addresses on both (SIMCUDA_SAME_ADDRESSES=1): the report must
// tell them apart.
//
// True report: clean; with --forget one leak of 48 MiB on GPU 1 from allocate_on, and none on GPU 0, where the same
// function's buffer was freed.
//
// simulator: SIMCUDA_DEVICES=2 SIMCUDA_SAME_ADDRESSES=1
// run:
// expect: clean
// run: --forget
// expect: leak bytes=50331648 count=1 function=allocate_on api=cudaMalloc device=1
#include "examples/check.h"

EXAMPLE_NOINLINE void* allocate_on(int device, size_t bytes) {
  void* buffer = nullptr;
  check(cudaSetDevice(device), "select the device");
  check(cudaMalloc(&buffer, bytes), "allocate a buffer");  // leak-here
  return buffer;
}

EXAMPLE_NOINLINE void free_on(int device, void* buffer) {
  check(cudaSetDevice(device), "select the device");
  check(cudaFree(buffer), "free a buffer");
}

int main(int argc, char** argv) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "count the devices");
  if (devices < 2) {
    std::printf("this example needs two GPUs, %d found: skipped\n", devices);
    return kExitSkipped;
  }
  constexpr size_t kBytes = size_t{48} << 20;
  void* first = allocate_on(0, kBytes);
  void* second = allocate_on(1, kBytes);
  check(cudaMemcpyPeer(second, 1, first, 0, kBytes), "copy between the devices");

  int* shared = nullptr;
  check(cudaMallocManaged(&shared, kBytes), "allocate managed memory");
  for (int device : {0, 1}) {
    check(cudaSetDevice(device), "select the device");
    check(cudaMemset(shared, device, kBytes), "touch the managed memory");
    check(cudaDeviceSynchronize(), "wait for the device");
  }
  check(cudaFree(shared), "free the managed memory");

  free_on(0, first);
  if (!has_argument(argc, argv, "--forget")) free_on(1, second);
  return 0;
}
