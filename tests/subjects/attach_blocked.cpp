// A program in which nothing can be loaded: its main thread is in the loader, inside the constructor of a library that
// waits for the end of standard input. With "other" there is a second thread, which is free. Prints "fine" at the end.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/subjects/check.h"

int main(int, char** argv) {
  std::atomic<bool> stop{false};
  std::thread other;
  if (strcmp(argv[1], "other") == 0) {
    other = std::thread([&] {
      while (!stop.load()) usleep(1000);
    });
  }
  void* library = dlopen(argv[2], RTLD_NOW);
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  stop = true;
  if (other.joinable()) other.join();
  puts("fine");
  return 0;
}
