// Leaks at the bottom of a recursion of the depth given by the argument.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void recurse(int depth) {
  if (depth == 0) {
    void* pointer = nullptr;
    CHECKED(cudaMalloc(&pointer, 11001));
  } else {
    recurse(depth - 1);
  }
  asm volatile("");
}

int main(int, char** argv) {
  recurse(atoi(argv[1]));
  return 0;
}
