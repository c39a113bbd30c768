// Allocates and frees while a timer's signal switches recording on and off, wherever the thread is then. Needs
// CULPRIT_START=signal and CULPRIT_SIGNAL=ALRM. Prints "done" after a quarter of a second.
#include <cuda_runtime_api.h>
#include <signal.h>
#include <sys/time.h>

#include <cstdio>

#include "tests/subjects/check.h"

int main() {
  cudaStream_t stream = nullptr;
  CHECKED(cudaStreamCreate(&stream));
  struct itimerval every = {{0, 503}, {0, 503}};
  setitimer(ITIMER_REAL, &every, nullptr);
  struct timeval begin, now;
  gettimeofday(&begin, nullptr);
  do {
    for (int i = 0; i < 100; ++i) {
      void* memory[8];
      for (void*& one : memory) CHECKED(cudaMallocAsync(&one, 4096, stream));
      for (void* one : memory) CHECKED(cudaFreeAsync(one, stream));
    }
    gettimeofday(&now, nullptr);
  } while ((now.tv_sec - begin.tv_sec) * 1000000 + now.tv_usec - begin.tv_usec < 250000);
  std::puts("done");
  return 0;
}
