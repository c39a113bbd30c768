// Forks. The parent leaks 11001 bytes before or after (argument 1: parent-first, parent-last, parent-never); the child
// leaks 20001 bytes or nothing (argument 2: allocates, idle).
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/subjects/check.h"

static void start_cuda() {
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
}

SUBJECT_FUNCTION void leak_in_parent() {
  start_cuda();
  CUdeviceptr pointer = 0;
  CHECKED(cuMemAlloc(&pointer, 11001));
}

SUBJECT_FUNCTION void leak_in_child() {
  start_cuda();
  CUdeviceptr pointer = 0;
  CHECKED(cuMemAlloc(&pointer, 20001));
}

int main(int, char** argv) {
  if (std::strcmp(argv[1], "parent-first") == 0) leak_in_parent();
  const pid_t child = fork();
  if (child == 0) {
    if (std::strcmp(argv[2], "allocates") == 0) leak_in_child();
    return 0;
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return 4;
  if (std::strcmp(argv[1], "parent-last") == 0) leak_in_parent();
  return 0;
}
