// Question: "memory that I allocated with cudaMallocManaged does not clear. Is cudaFree the right call for it?"
//
// It is. cudaFreeHost fails, the memory stays, and the program ignores the return value. culprit reports the failed
// call with both stacks.
//
// True report: clean when the memory is freed with cudaFree. With --wrong-free one leak of 256 MiB from
// make_shared_table and one error, a mismatched free. With --forget only the leak.
//
// run:
// expect: clean
// run: --forget
// expect: leak bytes=268435456 count=1 function=make_shared_table api=cudaMallocManaged kind=managed
// run: --wrong-free
// expect: leak bytes=268435456 count=1 function=make_shared_table api=cudaMallocManaged kind=managed
// expect: error mismatched-free function=release_shared_table
#include "examples/check.h"

EXAMPLE_NOINLINE int* make_shared_table(size_t bytes) {
  int* table = nullptr;
  check(cudaMallocManaged(&table, bytes), "allocate the table");  // leak-here
  table[0] = 1;
  return table;
}

EXAMPLE_NOINLINE void release_shared_table(int* table, bool wrong_function) {
  cudaError_t status = wrong_function ? cudaFreeHost(table) : cudaFree(table);
  std::printf("released: %s\n", cudaGetErrorString(status));
}

int main(int argc, char** argv) {
  int* table = make_shared_table(size_t{256} << 20);
  check(cudaDeviceSynchronize(), "wait for the GPU");
  if (!has_argument(argc, argv, "--forget")) release_shared_table(table, has_argument(argc, argv, "--wrong-free"));
  return 0;
}
