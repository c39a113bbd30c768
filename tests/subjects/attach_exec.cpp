// A program that replaces itself, as wrappers do, or ends: attach_exec KIND [N]
//   exec       its main thread runs for some milliseconds and executes this program again, until standard input is
//              closed
//   thread     the same from another thread than the main one
//   end        ends after N microseconds
//   pthread    main() ends by pthread_exit(); another thread allocates, and leaks 20001 bytes for each byte of standard
//              input
// Prints "ready" once (when N is not given), and "fine" at its end.
#include <cuda_runtime_api.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION static void* allocate(size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return pointer;
}

SUBJECT_FUNCTION static void leak_after() { allocate(20001); }

static void compute(int microseconds) {
  timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    CHECKED(cudaFree(allocate(5001)));
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < microseconds);
}

static bool input_is_closed() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
}

static void* run_until_end(void*) {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) leak_after();
  puts("fine");
  exit(0);
}

int main(int count, char** arguments) {
  const std::string kind = arguments[1];
  if (kind == "pthread") {
    allocate(11001);
    pthread_t thread;
    pthread_create(&thread, nullptr, run_until_end, nullptr);
    puts("ready");
    fflush(stdout);
    pthread_exit(nullptr);
  }
  if (kind == "end") {
    compute(atoi(arguments[2]));
    return 0;
  }
  const int round = count > 2 ? atoi(arguments[2]) : 0;
  if (round == 0) {
    puts("ready");
    fflush(stdout);
  }
  compute(1000 + round * 37 % 2000);
  if (input_is_closed()) {
    puts("fine");
    return 0;
  }
  const std::string next = std::to_string(round + 1);
  const auto replace = [&] {
    execl(arguments[0], arguments[0], arguments[1], next.c_str(), nullptr);
    _exit(5);
  };
  if (kind == "thread") {
    std::thread other(replace);
    other.join();
  }
  replace();
}
