// Another process on the same GPU: neighbour MODE, until its stdin ends. It prints "ready" when it has memory.
//   keep       64 MiB
//   churn      takes and gives back 64 to 448 MiB
//   come       appears, takes memory, and ends its context, again and again
//   restart    a new process each time
#include <cuda_runtime_api.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

namespace {

constexpr std::size_t kUnit = std::size_t{64} << 20;

bool is_over() {
  pollfd end = {STDIN_FILENO, POLLIN, 0};
  return poll(&end, 1, 0) != 0;
}

void tell_ready() {
  static bool told = false;
  if (told) return;
  told = true;
  puts("ready");
  fflush(stdout);
}

void take_and_give_back(int turn) {
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, kUnit * static_cast<std::size_t>(1 + turn * 3 % 7)));
  tell_ready();
  usleep(300);
  CHECKED(cudaFree(memory));
}

}  // namespace

int main(int count, char** arguments) {
  const char* mode = count > 1 ? arguments[1] : "keep";
  if (strcmp(mode, "keep") == 0) {
    void* memory = nullptr;
    CHECKED(cudaMalloc(&memory, kUnit));
    tell_ready();
    while (!is_over()) usleep(1000);
  }
  for (int turn = 0; !is_over(); ++turn) {
    if (strcmp(mode, "restart") != 0) {
      take_and_give_back(turn);
      if (strcmp(mode, "come") == 0) CHECKED(cudaDeviceReset());
      continue;
    }
    const pid_t child = fork();
    if (child == 0) {
      take_and_give_back(turn);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    tell_ready();
  }
  return 0;
}
