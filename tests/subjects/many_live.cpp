// Leaves N allocations (argument 1) of 11001 bytes from as many as S distinct stacks (argument 2): one chain of calls
// for each number, whose bits choose between two functions a level.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void descend(unsigned path, int level);

SUBJECT_FUNCTION void left(unsigned path, int level) {
  descend(path / 2, level - 1);
  asm volatile("");
}

SUBJECT_FUNCTION void right(unsigned path, int level) {
  descend(path / 2, level - 1);
  asm volatile("nop");
}

SUBJECT_FUNCTION void descend(unsigned path, int level) {
  if (level == 0) {
    void* pointer = nullptr;
    CHECKED(cudaMalloc(&pointer, 11001));
  } else if (path % 2 == 0) {
    left(path, level);
  } else {
    right(path, level);
  }
  asm volatile("");
}

int main(int, char** argv) {
  const unsigned count = strtoul(argv[1], nullptr, 10);
  const unsigned stacks = strtoul(argv[2], nullptr, 10);
  int levels = 0;
  while ((1u << levels) < stacks) ++levels;
  for (unsigned i = 0; i < count; ++i) descend(i % stacks, levels);
  puts("done");
  return 0;
}
