// The program of examples/report.png and of html_test.py: a training loop on two GPUs that loses memory in
// several ways, over two seconds.
#include <cuda_runtime_api.h>
#include <culprit.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#define OWN_FUNCTION __attribute__((noinline))

namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) std::abort();
}

constexpr std::size_t mib(std::size_t count) { return count << 20; }

void work() { usleep(12000); }

}  // namespace

void* g_embedding_cache[16];

namespace solver {

OWN_FUNCTION void iterate(int step) {
  if (step % 7 == 6) throw std::runtime_error("residual is NaN");
}

OWN_FUNCTION void solve(int step) {
  void* residual = nullptr;
  check(cudaMalloc(&residual, mib(512)));
  work();
  iterate(step);
  check(cudaFree(residual));
}

}  // namespace solver

namespace model {

OWN_FUNCTION void embed(int step) {
  void* rows = nullptr;
  check(cudaMalloc(&rows, mib(160)));
  work();
  if (step % 5 == 4) {
    g_embedding_cache[step / 5] = rows;
  } else {
    check(cudaFree(rows));
  }
}

OWN_FUNCTION void forward(int step) {
  void* activations = nullptr;
  check(cudaMalloc(&activations, mib(512 + 96 * static_cast<std::size_t>(step % 5))));
  work();
  embed(step);
  check(cudaFree(activations));
}

}  // namespace model

namespace io {

OWN_FUNCTION bool load_checkpoint() {
  void* staging = nullptr;
  void* weights = nullptr;
  check(cudaMalloc(&staging, mib(256)));
  if (cudaMalloc(&weights, mib(1 << 22)) != cudaSuccess) return false;
  check(cudaFree(weights));
  check(cudaFree(staging));
  return true;
}

OWN_FUNCTION void prefetch(int step) {
  void* batch = nullptr;
  check(cudaMalloc(&batch, mib(24 * static_cast<std::size_t>(step % 4 + 1))));
}

}  // namespace io

int main() {
  for (int step = 0; step < 48; ++step) {
    if (step % 16 == 0) {
      if (step > 0) culprit_mark_pop();
      culprit_mark_push(("epoch " + std::to_string(step / 16 + 1)).c_str());
    }
    check(cudaSetDevice(step % 4 == 3));
    if (step % 16 == 9 && !io::load_checkpoint()) std::printf("step %d: no room for the checkpoint\n", step);
    try {
      model::forward(step);
      solver::solve(step);
    } catch (const std::exception& error) {
      std::printf("step %d: %s\n", step, error.what());
    }
    if (step % 6 == 5) io::prefetch(step);
  }
  return 0;
}
