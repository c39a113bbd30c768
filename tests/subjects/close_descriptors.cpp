// A daemon's start: after its first CUDA call it closes every descriptor above 2, opens files of its own that get the
// same numbers, writes known bytes into them, goes on using CUDA, and checks that its files have only its own bytes.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void leak(size_t bytes, int count) {
  for (int i = 0; i < count; ++i) {
    void* pointer = nullptr;
    CHECKED(cudaMalloc(&pointer, bytes));
  }
}

int main(int, char** argv) {
  leak(11001, 1);
  for (int i = 3; i < 1024; ++i) close(i);
  const std::string name = std::string(argv[1]) + "/mine";
  char mine[4096];
  memset(mine, 'm', sizeof mine);
  int files[64];
  for (int& file : files) {
    file = open((name + std::to_string(&file - files)).c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0 || write(file, mine, sizeof mine) != sizeof mine) return 3;
  }
  leak(20001, 100000);  // much more than was reserved in the dump before the descriptors were closed
  for (int file : files) {
    char now[8192];
    if (pread(file, now, sizeof now, 0) != sizeof mine || memcmp(now, mine, sizeof mine) != 0) return 4;
  }
  return 0;
}
