// A program that meets SIGBUS: bus_errors MODE FILE
//   wait     allocates, prints "ready", and when standard input ends makes many more calls in two threads, with new
//            stacks
//   own      touches its mapping of FILE behind the end of the file
//   sent     sends itself SIGBUS
//   handled  has a handler for SIGBUS from the start
//   later    installs a handler for SIGBUS after its first CUDA call
//   child    a fork child without CUDA dies as in "own"
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "tests/subjects/check.h"
#include "tests/subjects/leak_at_depth.h"

static void touch_lost_file(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, 8192) != 0) exit(4);
  char* bytes = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  if (bytes == MAP_FAILED || ftruncate(file, 0) != 0) exit(4);
  bytes[4096] = 1;
}

static sigjmp_buf after_error;
static void on_error(int) { siglongjmp(after_error, 1); }

static int live_through(const char* path) {
  if (sigsetjmp(after_error, 1) == 0) {
    touch_lost_file(path);
    return 5;
  }
  leak(10, 1);
  puts("handled");
  return 0;
}

int main(int, char** argv) {
  const std::string mode = argv[1];
  if (mode == "handled") signal(SIGBUS, on_error);
  leak(1000, 0);
  if (mode == "own") touch_lost_file(argv[2]);
  if (mode == "sent") {
    raise(SIGBUS);
    return 5;
  }
  if (mode == "later") signal(SIGBUS, on_error);
  if (mode == "handled" || mode == "later") return live_through(argv[2]);
  if (mode == "child") {
    const pid_t child = fork();
    if (child == 0) {
      touch_lost_file(argv[2]);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("%d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return 0;
  }
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  std::thread other([] {
    for (int depth = 0; depth < 100; ++depth) leak(100, depth);
  });
  for (int depth = 0; depth < 100; ++depth) leak(100, depth);
  other.join();
  puts("done");
  return 0;
}
