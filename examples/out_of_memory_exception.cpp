// Question: "after a while every cudaMalloc fails with out of memory, though no process is left. Where does it go?"
//
// An exception is thrown between cudaMalloc and cudaFree. The catch in main continues the program, and each failed
// step leaves its residual behind. Steps that do not throw free the residual.
//
// True report: one leak of 256 MiB in 4 allocations from solve_step, all caused by the exception. With --clean (a
// destructor frees the residual): nothing.
//
// run:
// expect: leak bytes=268435456 count=4 function=solve_step api=cudaMalloc cause=exception
// run: --clean
// expect: clean
#include <memory>
#include <stdexcept>

#include "examples/check.h"

namespace {

constexpr size_t kResidualBytes = size_t{64} << 20;

struct DeviceDeleter {
  void operator()(void* memory) const { cudaFree(memory); }
};

}  // namespace

// Throws when the step does not converge.
EXAMPLE_NOINLINE void iterate(void* residual, int step) {
  check(cudaMemset(residual, step, kResidualBytes), "iterate");
  if (step % 2 == 1) throw std::runtime_error("the residual is NaN");
}

EXAMPLE_NOINLINE void solve_step(int step) {
  void* residual = nullptr;
  check(cudaMalloc(&residual, kResidualBytes), "allocate the residual");  // leak-here
  iterate(residual, step);
  check(cudaFree(residual), "free the residual");
}

EXAMPLE_NOINLINE void solve_step_with_owner(int step) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, kResidualBytes), "allocate the residual");
  std::unique_ptr<void, DeviceDeleter> residual(memory);
  iterate(residual.get(), step);
}

int main(int argc, char** argv) {
  bool clean = has_argument(argc, argv, "--clean");
  for (int step = 0; step < 8; ++step) {
    try {
      clean ? solve_step_with_owner(step) : solve_step(step);
    } catch (const std::exception& error) {
      std::printf("step %d: %s\n", step, error.what());
    }
  }
  return 0;
}
