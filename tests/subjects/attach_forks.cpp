// A program whose thread forks children while culprit attaches and detaches: a child is forked at any moment of that.
//
//     attach_forks COUNT          one each 2 ms
//     attach_forks COUNT later    the same, after the first byte of standard input
//     attach_forks COUNT fast     one as soon as the last one is there, at once
//
// Each child waits for the end of its standard input, and leaks 20001 bytes for each byte there. It allocates and frees
// before and after, unless it is a fast one: the simulated runtime then calls dlopen(), which ends a child that was
// forked in the middle of another thread's dlopen(). Prints "ready", and "fine" when all children have ended well.
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION static void* allocate(size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return pointer;
}

SUBJECT_FUNCTION static void leak_in_child() { allocate(20001); }

static void be_child(int input, bool allocates) {
  if (allocates) CHECKED(cudaFree(allocate(777)));
  char byte = 0;
  while (read(input, &byte, 1) > 0) leak_in_child();
  if (allocates) CHECKED(cudaFree(allocate(777)));
  _exit(0);
}

int main(int count, char** arguments) {
  const int most = atoi(arguments[1]);
  const std::string kind = count > 2 ? arguments[2] : "";
  const bool fast = kind == "fast";
  CHECKED(cudaFree(allocate(777)));
  std::vector<pid_t> children;
  std::atomic<bool> stop{false};
  int ends[2];
  if (pipe(ends) != 0) return 4;  // its writing end closes with this process's
  puts("ready");
  fflush(stdout);
  char byte = 0;
  if (kind == "later" && read(STDIN_FILENO, &byte, 1) != 1) return 4;
  std::thread forks([&] {
    while (!stop.load() && static_cast<int>(children.size()) < most) {
      const pid_t child = fork();
      if (child == 0) {
        close(ends[1]);
        be_child(ends[0], !fast);
      }
      children.push_back(child);
      if (!fast) usleep(2000);
    }
  });
  while (read(STDIN_FILENO, &byte, 1) > 0) CHECKED(cudaFree(allocate(999)));
  stop = true;
  forks.join();
  close(ends[1]);
  bool well = true;
  for (const pid_t child : children) {
    int status = 0;
    if (waitpid(child, &status, 0) == child && status == 0) continue;
    fprintf(stderr, "child %d ended with status 0x%x\n", child, static_cast<unsigned>(status));
    well = false;
  }
  if (!well) return 3;
  puts("fine");
  return 0;
}
