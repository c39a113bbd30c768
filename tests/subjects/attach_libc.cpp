// Programs in which the libc, or the file of it, is another one than expected. Byte by byte of standard input they leak
// 20001 bytes.
//
//   attach_libc                    nothing more: the test runs it with libraries of its own, and replaces their files
//   attach_libc apart LIBRARY      a library has a libc of its own, in another name space of the loader
//   attach_libc "in fork"          the only thread waits in a handler of fork()
//
// "ready" is printed then, and "fine" at the end of standard input.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION static void leak_after() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 20001));
}

static void obey() {
  puts("ready");
  fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) leak_after();
}

static int fork_slowly() {
  if (pthread_atfork(obey, nullptr, nullptr) != 0) return 4;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  return waitpid(child, &status, 0) == child ? status : 4;
}

int main(int count, char** arguments) {
  CHECKED(cudaFree(nullptr));
  if (count == 3 && dlmopen(LM_ID_NEWLM, arguments[2], RTLD_NOW) == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  if (count == 2) {
    CHECKED(fork_slowly());
  } else {
    obey();
  }
  puts("fine");
  return 0;
}
