// Leaks 11001 bytes, then runs the program named after the way to do it: fork, vfork, spawn or exec (which replaces
// this process). Ends with the other program's exit code.
#include <cuda_runtime_api.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/subjects/check.h"

extern char** environ;

SUBJECT_FUNCTION void leak_in_starter() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
}

int main(int, char** argv) {
  leak_in_starter();
  char** other = argv + 2;
  pid_t child = 0;
  if (std::strcmp(argv[1], "exec") == 0) execv(other[0], other);
  if (std::strcmp(argv[1], "spawn") == 0) posix_spawn(&child, other[0], nullptr, nullptr, other, environ);
  if (std::strcmp(argv[1], "fork") == 0) child = fork();
  if (std::strcmp(argv[1], "vfork") == 0) child = vfork();
  if (child == 0) {
    execv(other[0], other);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}
