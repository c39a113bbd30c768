// Does what its arguments say, one letter each: a allocates (10001 bytes, then 10002, ...), f frees the oldest, d frees
// the last freed again, s sends itself SIGUSR2, k forks a child that allocates and waits for it, g handles SIGUSR2
// itself, w prints "ready" and waits until its standard input is closed.
#include <cuda_runtime_api.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>

#include "tests/subjects/check.h"

static std::size_t next_size = 10001;

SUBJECT_FUNCTION void* allocate() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, next_size++));
  return pointer;
}

static void wait_for_end_of_input() {
  puts("ready");
  fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

static void fork_child() {
  const pid_t child = fork();
  if (child == 0) {
    allocate();
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECKED(status);
}

int main(int, char** argv) {
  std::deque<void*> live;
  void* freed = nullptr;
  for (int i = 1; argv[i] != nullptr; ++i) {
    switch (argv[i][0]) {
      case 'a':
        live.push_back(allocate());
        break;
      case 'f':
        freed = live.front();
        live.pop_front();
        CHECKED(cudaFree(freed));
        break;
      case 'd':
        EXPECTED(cudaErrorInvalidValue, cudaFree(freed));
        break;
      case 's':
        raise(SIGUSR2);
        break;
      case 'k':
        fork_child();
        break;
      case 'g':
        signal(SIGUSR2, [](int) {
          const char text[] = "guest\n";
          if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0) _exit(4);
        });
        break;
      case 'w':
        wait_for_end_of_input();
        break;
    }
  }
  return 0;
}
