// For each byte of standard input: forks a child whose threads allocate, and leaks 20001 bytes itself. A child that
// does not end well ends the program with exit code 3. Prints "ready", and "fine" at its end. Three threads allocate
// meanwhile; with an argument none does.
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void* allocate(size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return pointer;
}

SUBJECT_FUNCTION void leak_in_parent() { allocate(20001); }

int main(int argc, char**) {
  // Threads that use CUDA. They do not exist in a fork child.
  std::vector<std::thread> threads;
  bool stop = false;
  for (int i = 0; argc == 1 && i < 3; ++i) {
    threads.emplace_back([&] {
      while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        CHECKED(cudaFree(allocate(5001)));
        usleep(500);
      }
    });
  }
  puts("ready");
  fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
    leak_in_parent();
    const pid_t child = fork();
    if (child == 0) {
      for (int round = 0; round < 3; ++round) {
        std::vector<std::thread> children;
        for (int i = 0; i < 4; ++i) children.emplace_back([] { CHECKED(cudaFree(allocate(777))); });
        for (std::thread& thread : children) thread.join();
      }
      _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
      fprintf(stderr, "the child ended with status %d\n", status);
      return 3;
    }
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (std::thread& thread : threads) thread.join();
  puts("fine");
  return 0;
}
