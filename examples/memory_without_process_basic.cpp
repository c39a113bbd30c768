// Question: "nvidia-smi shows used GPU memory but no process that uses it. Did my program leave it behind?"
//
// Device memory belongs to the context of a process: when the process ends the driver frees all of it. A leak costs
// memory only while the program RUNS. Here a solver does not free its grid; with --clean it
// does.
//
// True report: one leak of 1.00 GiB on GPU 0, one cudaMalloc, allocated in allocate_grid. With --clean: nothing.
//
// run:
// expect: leak bytes=1073741824 count=1 function=allocate_grid api=cudaMalloc
// run: --clean
// expect: clean
#include "examples/check.h"

EXAMPLE_NOINLINE float* allocate_grid(size_t bytes) {
  float* grid = nullptr;
  check(cudaMalloc(&grid, bytes), "allocate the grid");  // leak-here
  return grid;
}

EXAMPLE_NOINLINE float* allocate_border(size_t bytes) {
  float* border = nullptr;
  check(cudaMalloc(&border, bytes), "allocate the border");
  return border;
}

int main(int argc, char** argv) {
  constexpr size_t kGridBytes = size_t{1} << 30;
  constexpr size_t kBorderBytes = size_t{1} << 20;
  float* grid = allocate_grid(kGridBytes);
  float* border = allocate_border(kBorderBytes);
  check(cudaMemset(grid, 0, kBorderBytes), "clear the grid");
  check(cudaMemcpy(border, grid, kBorderBytes, cudaMemcpyDeviceToDevice), "copy the border");
  check(cudaFree(border), "free the border");
  if (has_argument(argc, argv, "--clean")) check(cudaFree(grid), "free the grid");
  std::puts("done");
  return 0;
}
