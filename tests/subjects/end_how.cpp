// Leaks 11001 bytes and ends in the way that the argument names. "live" prints "ready" and waits for the end of stdin.
#include <cuda_runtime_api.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void leak_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
}

int main(int, char** argv) {
  leak_here();
  const std::string how = argv[1];
  if (how == "kill") raise(SIGKILL);
  if (how == "abort") abort();
  if (how == "segv") raise(SIGSEGV);
  if (how == "_exit") _exit(9);
  if (how == "quick_exit") quick_exit(9);
  if (how == "exit") exit(9);
  if (how == "terminate") throw 1;
  if (how == "live") {
    puts("ready");
    fflush(stdout);
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
  }
  return 9;
}
