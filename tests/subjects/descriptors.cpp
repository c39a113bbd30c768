// Prints the numbers of the program's own files to the file in argument 1. Argument 2: "next", files that are opened
// after CUDA calls; "fill", files until no number is left, and CUDA calls with all of them open; "database", stderr is
// closed and a file takes its place.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void leak(int count) {
  for (int i = 0; i < count; ++i) {
    void* pointer = nullptr;
    CHECKED(cudaMalloc(&pointer, 11001));
  }
}

int main(int, char** argv) {
  const std::string mode = argv[2];
  std::string result;
  if (mode == "database") {
    leak(1);
    close(STDERR_FILENO);
    const int file = open(argv[1], O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file != STDERR_FILENO || write(file, "data", 4) != 4) return 4;
    leak(50000);
    return 0;
  }
  leak(1);
  std::vector<int> files;
  const std::size_t most = mode == "next" ? 8 : 100000;
  while (files.size() < most) {
    const int file = open("/dev/null", O_RDONLY);
    if (file < 0) break;
    files.push_back(file);
    leak(10);
  }
  leak(50000);
  for (int file : files) {
    char nothing[1];
    if (read(file, nothing, 1) != 0) return 5;  // not /dev/null any more
    if (mode == "next" || file == files.back()) result += std::to_string(file) + " ";
    close(file);
  }
  const int file = open(argv[1], O_RDWR | O_CREAT | O_EXCL, 0600);
  result += std::to_string(file) + "\n";
  if (write(file, result.data(), result.size()) != static_cast<ssize_t>(result.size())) return 6;
  close(file);
  return 0;
}
