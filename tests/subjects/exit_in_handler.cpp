// Allocates and frees until a timer's signal handler ends the process by _exit(7), wherever the thread is then.
//
//   exit_in_handler MICROSECONDS [malloc]    malloc: only memory of the host, so that the handler interrupts malloc
#include <cuda_runtime_api.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "tests/subjects/check.h"

// Blocks too large for what malloc keeps for each thread: most of the time is spent with its lock held.
[[noreturn]] SUBJECT_FUNCTION void allocate_on_the_host() {
  std::thread([] { pause(); }).detach();  // with only one thread malloc would not lock
  for (;;) {
    void* volatile memory[8];
    for (void* volatile& one : memory) one = std::malloc(5000);
    for (void* volatile& one : memory) std::free(one);
  }
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  cudaStream_t stream = nullptr;
  CHECKED(cudaStreamCreate(&stream));
  void* kept = nullptr;
  CHECKED(cudaMallocAsync(&kept, 20001, stream));
  struct sigaction action = {};
  action.sa_handler = [](int) { _exit(7); };
  sigaction(SIGALRM, &action, nullptr);
  struct itimerval once = {{0, 0}, {0, std::atol(argv[1])}};
  setitimer(ITIMER_REAL, &once, nullptr);
  if (argc > 2) allocate_on_the_host();
  // More at a time than a thread keeps to itself, so that the shared tables are at work too.
  for (;;) {
    void* memory[8];
    for (void*& one : memory) CHECKED(cudaMallocAsync(&one, 4096, stream));
    for (void* one : memory) CHECKED(cudaFreeAsync(one, stream));
  }
}
