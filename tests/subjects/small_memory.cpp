// A program with little memory: small_memory share|lock COUNT. Prints after two CUDA calls, and again after COUNT more,
//   share  the size of the largest block that malloc() returns, in KiB
//   lock   with all new mappings locked: the locked memory in KiB, and 1 or 0: mmap() gives another MiB, or does not
#include <cuda_runtime_api.h>
#include <string.h>
#include <sys/mman.h>

#include <initializer_list>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void leak(int count) {
  for (int i = 0; i < count; ++i) {
    void* pointer = nullptr;
    CHECKED(cudaMalloc(&pointer, 256));
  }
}

static size_t largest_block() {
  size_t least = 0, most = size_t{1} << 40;  // KiB
  while (least + 1 < most) {
    const size_t middle = (least + most) / 2;
    void* block = malloc(middle << 10);
    if (block != nullptr) least = middle;
    if (block == nullptr) most = middle;
    free(block);
  }
  return least;
}

static unsigned long locked_kib() {
  char line[256];
  unsigned long kib = 0;
  FILE* status = fopen("/proc/self/status", "r");
  while (status != nullptr && fgets(line, sizeof line, status) != nullptr) sscanf(line, "VmLck: %lu", &kib);
  if (status != nullptr) fclose(status);
  return kib;
}

int main(int, char** argv) {
  const bool lock = strcmp(argv[1], "lock") == 0;
  static char line[4096];
  setvbuf(stdout, line, _IOFBF, sizeof line);
  leak(1);
  if (lock && mlockall(MCL_FUTURE) != 0) return 4;
  for (int count : {1, atoi(argv[2])}) {
    leak(count);
    if (lock) {
      void* mine = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      printf("%lu %d\n", locked_kib(), mine != MAP_FAILED);
      if (mine != MAP_FAILED) munmap(mine, 1 << 20);
    } else {
      printf("%zu\n", largest_block());
    }
  }
  return 0;
}
