// Starts CUDA in a way of argument 1, and leaks 11001 bytes in each process that uses it:
//   alone    in the only thread
//   threads  beside two threads of its own, which were there before; argument 2: seconds between the first use and
//            the last
//   forks    in two children, one after the other, and then here
//   counts   asks for the number of devices only, and leaks nothing
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tests/subjects/check.h"

static void* wait_for_ever(void*) {
  for (;;) pause();
}

static void start_threads() {
  pthread_t thread;
  for (int i = 0; i < 2; ++i) CHECKED(pthread_create(&thread, nullptr, wait_for_ever, nullptr));
}

SUBJECT_FUNCTION void leak_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
}

// So many that the dump grows.
static void use_up_room() {
  for (int i = 0; i < 3000; ++i) {
    cudaEvent_t event = nullptr;
    CHECKED(cudaEventCreate(&event));
  }
}

int main(int count, char** arguments) {
  const char* way = count > 1 ? arguments[1] : "";
  if (std::strcmp(way, "counts") == 0) {
    int devices = 0;
    CHECKED(cudaGetDeviceCount(&devices));
    return 0;
  }
  if (std::strcmp(way, "threads") == 0) start_threads();
  for (int child = 0; child < 2 && std::strcmp(way, "forks") == 0; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      leak_here();
      return 0;
    }
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0) return 4;
  }
  leak_here();
  use_up_room();
  if (count > 2) {
    sleep(static_cast<unsigned>(std::atoi(arguments[2])));
    use_up_room();
    use_up_room();
  }
  return 0;
}
